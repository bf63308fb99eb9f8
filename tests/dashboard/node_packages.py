"""Files of the npm packages that dashboard/package-lock.json pins: the page's compiler, and what finds barriers in pages."""

import shutil
import subprocess
from pathlib import Path

DASHBOARD = Path(__file__).resolve().parents[2] / "dashboard"


def find_package_file(folder, name):
    """node_modules/NAME in dashboard/, or fetched into `folder` (once); None where node or npm's registry is not there."""
    own = DASHBOARD / "node_modules" / name
    if own.exists():
        return own
    if not shutil.which("node") or not shutil.which("npm"):
        return None
    folder.mkdir(parents=True, exist_ok=True)
    for file in ["package.json", "package-lock.json"]:
        shutil.copy(DASHBOARD / file, folder)
    fetched = folder / "node_modules" / name
    if not fetched.exists():
        try:
            subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=0"], cwd=folder, capture_output=True,
                           timeout=100)
        except subprocess.TimeoutExpired:
            pass
    return fetched if fetched.exists() else None
