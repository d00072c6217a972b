#!/usr/bin/env python3
"""What programs compiled against etl.h rely on is what tests/abi/ says: the functions with their
parameters, the constants' values, the shared library's name, and the size and offset of every
struct's members. docs/EMBEDDING.md says which of it may change when.

    check_abi.py --cc COMPILER [--run LAUNCHER] [--layout NAME] [--library LIBETL.SO]
    check_abi.py --cc COMPILER --update

--layout  tests/abi/NAME.txt: lp64 (the default), or i386 of a 32-bit x86
--run     what to run a program of that compiler with, such as qemu-s390x
--update  write all files instead, on a 64-bit machine; i386.txt where -m32 works (Debian:
          gcc-multilib)

COMPILER may have options. Exit status 1 when something differs.
"""

import argparse
import difflib
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent
ABI = SOURCE / "tests" / "abi"
# Where only gcc-12-multilib is there, the kernel's headers are those of the host.
M32 = ["-m32", "-idirafter", "/usr/include/x86_64-linux-gnu"]


def read_header():
    """The header without comments, preprocessor lines and inline functions, in one line."""
    text = (SOURCE / "include" / "etl.h").read_text()
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^#.*(?:(?<=\\)\n.*)*", "", text, flags=re.M)
    text = re.sub(r"^static inline .*?^}", "", text, flags=re.M | re.S)
    return " ".join(text.split())


def interface(header, soname):
    """Functions, callbacks and opaque types, as declared."""
    lines = ["soname " + soname]
    for declared in re.findall(r"LIBETL_API ([^;]*);", header):
        lines.append(declared)
    for declared in re.findall(r"typedef (?!enum|struct \w+ \{)([^;{]*);", header):
        lines.append("typedef " + declared)
    return sorted(lines)


def constants(header):
    text = (SOURCE / "include" / "etl.h").read_text()
    yield from re.findall(r"^#define (ETL_\w+) ", text, re.M)
    for body in re.findall(r"\benum \w* ?\{([^}]*)\}", header):
        yield from (item.split("=")[0].strip() for item in body.split(",") if item.strip())


def members(body):
    """The names that a struct's body declares, nested function pointers included."""
    for declaration in filter(None, map(str.strip, body.split(";"))):
        pointer = re.search(r"\(\*(\w+)\)", declaration)
        yield pointer.group(1) if pointer else re.search(r"(\w+)$", declaration).group(1), \
            declaration


def probe(header):
    """A program that prints the values of constants and the layouts of structs."""
    code = ["#include <etl.h>", "#include <stdio.h>", "int main(void) {"]
    for name in constants(header):
        code.append(f'printf("%s = %lld\\n", "{name}", (long long){name});')
    for name, body in re.findall(r"struct (\w+) \{([^}]*)\}", header):
        code.append(f'printf("struct {name}: %lu bytes\\n", (unsigned long)sizeof(struct {name}));')
        for member, declaration in members(body):
            code.append(f'printf("    %3lu: %s\\n", (unsigned long)offsetof(struct {name}, '
                        f'{member}), "{declaration}");')
    return "\n".join(code + ["return 0;", "}"])


def layout(header, cc, run):
    """What the probe prints; None where the compiler cannot compile it."""
    with tempfile.TemporaryDirectory() as directory:
        program = pathlib.Path(directory) / "probe"
        source = program.with_suffix(".c")
        source.write_text(probe(header))
        command = [*cc, "-I", SOURCE / "include", source, "-o", program]
        if subprocess.run(command).returncode != 0:
            return None
        done = subprocess.run([*run, program], check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def library_soname(library):
    """As the library has it; without a library, as CMakeLists.txt makes it."""
    if library is not None:
        listing = subprocess.run(["readelf", "-d", library], check=True, capture_output=True,
                                 text=True).stdout
        return re.search(r"\(SONAME\).*\[(.*)\]", listing).group(1)
    header = (SOURCE / "include" / "etl.h").read_text()
    major, minor = re.findall(r"LIBETL_VERSION_(?:MAJOR|MINOR) (\d+)", header)
    return "libetl.so." + (major if major != "0" else "0." + minor)


def update(header, cc):
    layouts = {"lp64": layout(header, cc, []), "i386": layout(header, cc + M32, [])}
    if layouts["i386"] is None:
        print("i386.txt stays as it is: no compiler for -m32 (Debian: gcc-multilib)")
    for name, lines in [("interface", interface(header, library_soname(None))), *layouts.items()]:
        if lines is not None:
            (ABI / f"{name}.txt").write_text("\n".join(lines) + "\n")
            print(f"{name}.txt: {len(lines)} lines")


def differs(name, lines):
    known = (ABI / f"{name}.txt").read_text().splitlines()
    changes = list(difflib.unified_diff(known, lines, f"{name}.txt", "etl.h", lineterm="", n=1))
    print("\n".join(changes) if changes else f"{name}.txt: {len(lines)} lines, as they were")
    return bool(changes)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--run", default="")
    parser.add_argument("--layout", default="lp64")
    parser.add_argument("--library")
    parser.add_argument("--update", action="store_true")
    arguments = parser.parse_args()
    header, cc = read_header(), arguments.cc.split()
    if arguments.update:
        update(header, cc)
        return
    lines = layout(header, cc, arguments.run.split())
    if lines is None:
        sys.exit("the compiler failed")
    changed = differs("interface", interface(header, library_soname(arguments.library)))
    if differs(arguments.layout, lines) or changed:
        sys.exit("etl.h is not what programs were compiled against. Where the rules of "
                 "docs/EMBEDDING.md allow it:\n    python3 tests/check_abi.py --update")


if __name__ == "__main__":
    main()
