#!/usr/bin/env python3
"""Makes a folder of text files, one for each role, of a list of roles with their lines: JSONL, plain or .xz, of
objects with `user` and `train`. For `data.partition=role` (docs/exchange.md#which-samples-a-rank-has).

    python3 scripts/role_files.py clients.jsonl.xz roles/ --least 2000
"""
import argparse
import json
import lzma
import pathlib


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("roles", help="a file of JSON objects, one a line")
    parser.add_argument("folder", type=pathlib.Path, help="where the files go; must not exist")
    parser.add_argument("--least", type=int, default=0, help="roles with fewer characters are left out")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True)
    opened = lzma.open if arguments.roles.endswith(".xz") else open
    written = 0
    with opened(arguments.roles, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            role = json.loads(line)
            if len(role["train"]) < arguments.least:
                continue
            name = "".join(c if c.isalnum() else "_" for c in role["user"])
            (arguments.folder / f"{number:05}_{name}.txt").write_text(role["train"], encoding="utf-8")
            written += 1
    print(f"{written} roles in {arguments.folder}")


if __name__ == "__main__":
    main()
