"""The README's example is examples/minimal.c, it compiles, and it prints what the README says;
the README's picture of the sources has the files of CMakeLists.txt, in their order, and each of
them includes only what stands below it. The snippets of the README and of docs/*.md compile, and
docs/COOKBOOK.md shows the programs of examples/cookbook as they are.

    check_readme.py --source DIRECTORY --cc COMPILER --library LIBETL.A
    check_readme.py --source DIRECTORY --update       puts the programs into docs/COOKBOOK.md
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile


def blocks(text, language):
    """The fenced code blocks of a language."""
    return re.findall(r"^```%s\n(.*?)^```$" % language, text, re.M | re.S)


PRELUDE = "#include <etl.h>\n" + "".join(f"#include <{name}.h>\n" for name in (
    "errno", "inttypes", "signal", "stdio", "stdlib", "unistd"))


def check_snippets(source, snippets, cc):
    """They compile: programs alone, functions as they are, statements inside one."""
    programs = [snippet for snippet in snippets if "\nint main(" in snippet]
    functions = [snippet for snippet in snippets if snippet.startswith("static")]
    statements = [snippet for snippet in snippets if snippet not in functions + programs]
    bodies = "".join(f"{{\n{snippet}}}\n" for snippet in statements)
    uses = "".join(f"(void){name};" for snippet in functions
                   for name in re.findall(r"^static [\w ]*?\**(\w+)\(", snippet, re.M))
    code = (PRELUDE + "void use(etl_slice key, etl_slice value);\n"
            "int snippets(etl_collector *pairs);\n" + "".join(functions) +
            "int snippets(etl_collector *pairs) {\n" + bodies + uses + "return pairs == NULL;}\n")
    for text in programs + [code]:
        subprocess.run([cc, "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Werror", "-I",
                        source / "include", "-xc", "-", "-fsyntax-only"],
                       input=text, text=True, check=True)


def check_example(source, readme, cc, library):
    example, *snippets = blocks(readme, "c")
    check_snippets(source, snippets, cc)
    if example != (source / "examples/minimal.c").read_text():
        sys.exit("the README's example differs from examples/minimal.c")
    command, expected = re.search(
        r"^    \$ \./minimal (.*)\n((?:    .*\n)+)", readme, re.M).groups()
    expected = re.sub(r"^    ", "", expected, flags=re.M)
    with tempfile.TemporaryDirectory() as directory:
        program = pathlib.Path(directory) / "minimal"
        code = program.with_suffix(".c")
        code.write_text(example)
        subprocess.run(
            [cc, "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-pedantic-errors", "-Werror",
             "-I", source / "include", code, library, "-pthread", "-o", program], check=True)
        printed = subprocess.run(
            [program, *command.split()], check=True, capture_output=True, text=True).stdout
    if printed != expected:
        sys.exit(f"the example prints\n{printed}and the README says\n{expected}")


PROGRAM = re.compile(r"^\[(\w+\.c)\]\(\.\./examples/cookbook/\1\):\n\n```c\n(.*?)^```$",
                     re.M | re.S)


def check_cookbook(source, update):
    """Each program once, and as it is."""
    path, programs = source / "docs/COOKBOOK.md", source / "examples/cookbook"
    text = path.read_text()
    shown = PROGRAM.sub(lambda found: found.group().replace(
        found.group(2), (programs / found.group(1)).read_text()), text)
    if update:
        path.write_text(shown)
    elif shown != text:
        sys.exit(f"{path} shows other programs than {programs} has: run {__file__} "
                 f"--source {source} --update")
    names = [found.group(1) for found in PROGRAM.finditer(text)]
    if sorted(names) != sorted(each.name for each in programs.glob("*.c")):
        sys.exit(f"{path} shows {names}, and {programs} has others")
    if len(blocks(text, "c")) != len(names):
        sys.exit(f"{path} has code that is no program of {programs}")


def check_picture(source, readme):
    cmake = (source / "CMakeLists.txt").read_text()
    built = re.findall(r"^    src/(\w+\.c)", cmake, re.M)
    house = readme.split("## The house")[1].split("\n## ")[0]
    drawn = re.findall(r"\b\w+\.c\b", house)
    if drawn != built:
        sys.exit(f"the README's house\n{drawn}\nis not the list in CMakeLists.txt\n{built}")
    missing = {path.name for path in (source / "src").glob("*.c")} - set(built)
    if missing:
        sys.exit(f"not built: {sorted(missing)}")
    return built


def check_order(source, built):
    """merge.c and merge.h stand at merge.c's place; a header alone may be included by all."""
    place = {pathlib.Path(name).stem: i for i, name in enumerate(built)}
    upward = []
    for path in sorted((source / "src").glob("*.[ch]")):
        for included in re.findall(r'^#include "(\w+)\.h"', path.read_text(), re.M):
            if place.get(included, len(built)) < place.get(path.stem, 0):
                upward.append(f"{path.name} includes {included}.h, which stands above it")
    if upward:
        sys.exit("\n".join(upward))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--cc")
    parser.add_argument("--library", type=pathlib.Path)
    parser.add_argument("--update", action="store_true")
    arguments = parser.parse_args()
    check_cookbook(arguments.source, arguments.update)
    if arguments.update:
        return
    readme = (arguments.source / "README.md").read_text()
    check_example(arguments.source, readme, arguments.cc, arguments.library)
    for path in sorted((arguments.source / "docs").glob("*.md")):
        if path.name == "COOKBOOK.md":  # programs, which are built and run
            continue
        check_snippets(arguments.source, blocks(path.read_text(), "c"), arguments.cc)
    check_order(arguments.source, check_picture(arguments.source, readme))
    print("the README's example and picture are those of the sources")


if __name__ == "__main__":
    main()
