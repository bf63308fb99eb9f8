"""What pip asks of a package that is built by CMake: builds it for the Python that asks, installs it into an empty folder,
and packs that as a wheel. It is here because Debian 12 has no scikit-build-core; nothing is downloaded.
"""

import base64
import hashlib
import re
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    run = lambda *command: subprocess.run([str(word) for word in command], check=True, cwd=ROOT)
    run("scripts/configure", "release")
    run("cmake", "--preset", "release", f"-DPython_EXECUTABLE={sys.executable}")
    run("cmake", "--build", "--preset", "release", "--target", "trireme_python")
    with tempfile.TemporaryDirectory() as prefix:
        run("cmake", "--install", ROOT / "build" / "release", "--component", "python", "--prefix", prefix)
        (site,) = Path(prefix).rglob("site-packages")
        return pack(site, Path(wheel_directory))


def pack(site, folder):
    """A wheel of what is installed in `site`; its name."""
    version = re.search(r"project\(trireme VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    tag = f"{python}-{python}-{re.sub('[-.]', '_', sysconfig.get_platform())}"
    about = f"trireme-{version}.dist-info"
    files = {str(path.relative_to(site)): path.read_bytes() for path in sorted(site.rglob("*")) if path.is_file()}
    files[f"{about}/METADATA"] = f"Metadata-Version: 2.1\nName: trireme\nVersion: {version}\n".encode()
    files[f"{about}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: trireme\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    record = ""
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content)}\n"
    files[f"{about}/RECORD"] = f"{record}{about}/RECORD,,\n".encode()
    wheel = f"trireme-{version}-{tag}.whl"
    with zipfile.ZipFile(folder / wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return wheel
