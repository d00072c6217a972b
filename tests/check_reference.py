"""The reference that is made of the public headers. The manual pages: each public name has one,
their examples compile, they fit a terminal of 80 columns, mandoc and man have nothing to complain
about, and a function that is on no page is told. Doxygen: no warning, and one for what has no
comment.

    check_reference.py --source DIRECTORY --cc COMPILER

Without mandoc, man or doxygen that part is left out, and said so.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import check_readme

WIDTH = 80
PLAIN = re.compile(r".\x08")  # what terminals make bold and underlined of
problems = []


def make(source, header, output):
    return subprocess.run(
        [sys.executable, source / "docs/man/make_man.py", header, source / "docs/man", output],
        capture_output=True, text=True)


def check_names(header, pages):
    """Every function and type of the header, taken from it by other means than the generator's."""
    text = re.sub(r"/\*.*?\*/|^#.*?$", "", header, flags=re.S | re.M)
    names = set(re.findall(r"\b(etl_\w+)\((?!\w*\))", re.sub(r"\([^()]*\(\*\w+\)", "(", text)))
    names |= set(re.findall(r"\b(etl_\w+);", text))
    names = {name for name in names if re.search(rf"^(LIBETL_API|typedef|static|}}).*\b{name}\b",
                                                 text, re.M)}
    for name in sorted(names):
        page = pages / f"{name}.3"
        if not page.exists():
            problems.append(f"no page for {name}")
            continue
        link = re.match(r"\.so man3/(\w+\.3)\n$", page.read_text())
        if link is not None:
            page = pages / link.group(1)
        if not re.search(rf"^\.(Fo|Vt .*) {name}\b|^\.Vt .*\b{name}\b", page.read_text(), re.M):
            problems.append(f"{page.name} does not have {name}")
    return len(names)


def check_examples(source, page, text, cc):
    examples = text.partition(".Sh EXAMPLES\n")[2].partition("\n.Sh ")[0] + "\n"
    snippets = re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed$", examples, re.M | re.S)
    snippets = [each.replace("\\&", "").replace("\\e", "\\") for each in snippets]
    try:
        check_readme.check_snippets(source, snippets, cc)
    except subprocess.CalledProcessError:
        problems.append(f"{page.name}: an example does not compile")
    return len(snippets)


def check_tools(page):
    """What mandoc and man say, and how wide the page is."""
    if shutil.which("mandoc"):
        lint = subprocess.run(["mandoc", "-Tlint", "-Wwarning", page],
                              capture_output=True, text=True)
        problems.extend(line for line in lint.stdout.splitlines())
        shown = subprocess.run(["mandoc", "-Tutf8", "-Owidth=78", page],
                               capture_output=True, text=True)
        problems.extend(f"{page.name}: wider than {WIDTH}: {line}"
                        for line in PLAIN.sub("", shown.stdout).split("\n") if len(line) > WIDTH)
    if shutil.which("man"):
        environment = dict(os.environ, MANWIDTH=str(WIDTH), LC_ALL="C.UTF-8")
        said = subprocess.run(["man", "--warnings", "-l", page], env=environment,
                              capture_output=True, text=True).stderr
        problems.extend(f"{page.name}: man: {line}" for line in said.splitlines())


def check_unknown(source, header, directory):
    """A function in a section of its own is on no page; one in a section with a page is on it."""
    copy = directory / "etl.h"
    new = "/* Fly. Errors: as etl_load. */\nLIBETL_API int etl_fly(etl_collector *collector);\n\n"
    copy.write_text(header.replace("/* ---- Options", "/* ---- Flying */\n\n" + new +
                                   "/* ---- Options", 1))
    done = make(source, copy, directory / "man3")
    if done.returncode == 0 or "etl_fly is on no page" not in done.stderr:
        problems.append("a function on no page is not told: " + done.stderr)
    copy.write_text(header.replace("/* ---- Options", new + "/* ---- Options", 1))
    done = make(source, copy, directory / "man3")
    page = directory / "man3/etl_iter_open.3"
    if done.returncode != 0 or ".Fo etl_fly" not in page.read_text() or not (
            directory / "man3/etl_fly.3").exists():
        problems.append("a new function is not on the page of its section: " + done.stderr)


def doxygen(source, inputs, output, more=""):
    settings = (source / "docs/Doxyfile").read_text() + more
    settings += f"INPUT = {' '.join(map(str, inputs))}\nOUTPUT_DIRECTORY = {output}\n"
    return subprocess.run(["doxygen", "-"], cwd=source, input=settings, capture_output=True,
                          text=True)


def check_doxygen(source, header, directory):
    adapters = sorted((source / "adapters").glob("*/etl_*.h"))
    for inputs, more in (([source / "include"], ""), (adapters, "WARN_IF_UNDOCUMENTED = NO\n")):
        done = doxygen(source, inputs, directory / "doxygen", more) if inputs else None
        if done and (done.returncode != 0 or done.stderr != ""):
            problems.append("doxygen: " + done.stderr)
    if not (directory / "doxygen/html/index.html").exists():
        problems.append("doxygen made nothing")
    copy = directory / "etl_copy.h"
    copy.write_text(header.replace("/* ---- Options", "LIBETL_API int etl_fly(void);\n\n"
                                   "/* ---- Options", 1))
    done = doxygen(source, [copy], directory / "doxygen")
    if done.returncode == 0 or "etl_fly" not in done.stderr:
        problems.append("doxygen does not miss a comment: " + done.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--cc", required=True)
    arguments = parser.parse_args()
    path = arguments.source / "include/etl.h"
    header = path.read_text()
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        pages = directory / "pages"
        done = make(arguments.source, path, pages)
        if done.returncode != 0:
            sys.exit(done.stderr)
        names = check_names(header, pages)
        examples = whole = 0
        for page in sorted(pages.glob("*.3")):
            text = page.read_text()
            if not text.startswith(".so "):
                examples += check_examples(arguments.source, page, text, arguments.cc)
                check_tools(page)
                whole += 1
        check_unknown(arguments.source, header, directory)
        if shutil.which("doxygen"):
            check_doxygen(arguments.source.resolve(), header, directory)
    if problems:
        sys.exit("\n".join(problems))
    for tool in ("mandoc", "man", "doxygen"):
        if not shutil.which(tool):
            print(f"{tool} is not installed: its opinion was not asked")
    print(f"{whole} pages for {names} names, {examples} examples")


if __name__ == "__main__":
    main()
