"""Reads a public header of this project: its sections, its declarations and their comments.

What it relies on, and what etl.h does throughout:

- A section begins with a comment `/* ---- Title ... */`; text behind the title introduces it.
- A comment belongs to the declaration that follows, and to all that follow without a blank line.
- In a comment, blank lines separate paragraphs; lines indented by four or more are code; a line
  with a tag, two spaces or more and a text is an entry of a list, and deeper lines go on with it.
- "Returns ..." and "Errors: ..." end the description, either at the beginning of a sentence.
- The comment of a member stands behind it on its line, or before it on a line of its own.
"""

import dataclasses
import re

COMMENT = re.compile(r"/\*.*?\*/", re.S)


@dataclasses.dataclass
class Paragraph:
    kind: str  # text, code, list
    text: str = ""
    entries: list = dataclasses.field(default_factory=list)  # (tag, text)
    indented: bool = False


@dataclasses.dataclass
class Comment:
    description: list
    returns: list
    errors: list


@dataclasses.dataclass
class Declaration:
    kind: str  # function, callback, struct, enum, opaque, macro
    name: str
    code: str  # without comments
    comment: Comment = None
    leader: str = None  # the declaration whose comment this one shares
    result: str = ""
    parameters: list = dataclasses.field(default_factory=list)
    members: list = dataclasses.field(default_factory=list)  # (code, name, comment text)
    section: str = ""
    line: int = 0
    source: str = ""  # as it stands in the header
    remark: str = ""  # its comment as it stands in the header


@dataclasses.dataclass
class Section:
    title: str
    introduction: list


def words(lines):
    return re.sub(r"\s+", " ", " ".join(lines)).strip()


def plain(comment):
    """The lines of a comment without its marks."""
    body = comment.strip()[2:-2].rstrip()
    lines = [re.sub(r"^\s*\* ?", "", line) if at else line.lstrip()
             for at, line in enumerate(body.split("\n"))]
    return [line.rstrip() for line in lines]


ENTRY = re.compile(r"^( *)(\S+(?:,? \S+)*?)(?:  +(\S.*))?$")


def indent_of(line):
    return len(line) - len(line.lstrip())


def list_of(lines):
    """Entries begin at the smallest indentation."""
    least = min(map(indent_of, lines))
    entries = []
    for line in lines:
        if indent_of(line) > least:
            entries[-1][1] += " " + line.strip()
            continue
        _, tag, text = ENTRY.match(line).groups()
        entries.append([tag, text or ""])
    return Paragraph("list", entries=[(tag, words([text])) for tag, text in entries])


def is_entry(line):
    found = ENTRY.match(line)
    return found is not None and found.group(3) is not None


def opens_entry(lines, at):
    """A tag with its text, or alone with the text below."""
    return is_entry(lines[at]) or (at + 1 < len(lines) and
                                   indent_of(lines[at + 1]) > indent_of(lines[at]))


def paragraphs(lines):
    result, text = [], []

    def finish():
        if text:
            result.append(Paragraph("text", words(text)))
            text.clear()

    at = 0
    while at < len(lines):
        line = lines[at]
        if line == "":
            finish()
            at += 1
            continue
        end = at + 1
        if indent_of(line) >= 4 and not text:
            while end < len(lines) and (lines[end] == "" or indent_of(lines[end]) >= 4):
                end += 1
            code = lines[at:end]
            while code[-1] == "":
                code.pop()
            margin = min(indent_of(each) for each in code if each)
            result.append(Paragraph("code", "\n".join(each[margin:] for each in code)))
        elif indent_of(line) in (2, 3) or is_entry(line):
            margin = indent_of(line)
            while end < len(lines) and lines[end] != "" and (
                    indent_of(lines[end]) > margin or opens_entry(lines, end)):
                end += 1
            finish()
            if opens_entry(lines, at):
                result.append(list_of(lines[at:end]))
            else:  # indented text, as behind a list of errors
                while end < len(lines) and indent_of(lines[end]) == margin:
                    end += 1
                result.append(Paragraph("text", words(lines[at:end]), indented=True))
        else:
            text.append(line)
        at = end
    finish()
    return result


def split_comment(lines):
    """Description, returns and errors, each a list of paragraphs."""
    comment = Comment([], [], [])
    target = comment.description
    for paragraph in paragraphs(lines):
        if paragraph.kind != "text":
            if target is not comment.description and paragraph.kind == "list":
                target = comment.errors
            target.append(paragraph)
            continue
        for sentence in re.split(r"(?:^|(?<=[.:;] ))(?=Returns |Errors: )", paragraph.text):
            if sentence.startswith("Returns "):
                target = comment.returns
            elif sentence.startswith("Errors: "):
                target = comment.errors
                sentence = sentence[len("Errors: "):]
            elif target is comment.errors and not paragraph.indented:
                target = comment.description  # a paragraph of its own behind the errors
            if sentence.strip():
                target.append(Paragraph("text", sentence.strip()))
    return comment


def members_of(source, enum):
    """(code, name, comment) of a struct's or an enum's members."""
    body = source[source.index("{") + 1:source.rindex("}")]
    members, pending = [], None
    for piece in re.split(r"(/\*.*?\*/)", body, flags=re.S):
        if piece.startswith("/*"):
            text = words(plain(piece))
            if members and pending == "" and not members[-1][2]:
                members[-1][2] = text
            else:
                pending = text
            continue
        parts = piece.split("," if enum else ";")
        for at, part in enumerate(parts):
            code = words([part])
            if code:
                name = (code.split(" ")[0] if enum else
                        re.search(r"\(\*(\w+)\)|(\w+)(?:\[\w*\])?$", code))
                if not enum:
                    name = name.group(1) or name.group(2)
                members.append([code, name, pending or ""])
                pending = ""
            if at + 1 < len(parts) and members and "\n" in parts[at + 1]:
                # A comment on the next line is the next member's.
                pending = "" if parts[at + 1].strip() else None
            elif at == len(parts) - 1 and code:
                pending = ""
    return [tuple(member) for member in members]


def declaration_of(source, line):
    code = re.sub(r"[ \t]+\n", "\n", COMMENT.sub("", source)).strip()
    flat = words([code.replace("LIBETL_API", "")])
    made = None
    if code.startswith("#define"):
        name = re.match(r"#define (\w+(?:\([^)]*\))?)", code).group(1)
        made = Declaration("macro", name.split("(")[0], code)
        return made
    if re.match(r"(typedef )?(struct|enum)\b[^(]*\{", flat):
        enum = re.match(r"(typedef )?enum", flat) is not None
        name = re.search(r"\} ?(\w*);$", flat).group(1) or re.match(
            r"(?:struct|enum) ?(\w*)", flat).group(1)
        made = Declaration("enum" if enum else "struct", name, code)
        made.members = members_of(source, enum)
        made.name = name or made.members[0][1]
        return made
    function = re.match(r"(static inline |typedef )?(.*?)(\w+)\((.*?)\)(?: \{.*|;)$", flat)
    if function is not None:
        made = Declaration("callback" if function.group(1) == "typedef " else "function",
                           function.group(3), flat)
        made.result = function.group(2).strip()
        made.parameters = [each.strip() for each in function.group(4).split(",")]
        return made
    name = re.search(r"(\w+);$", flat)
    if name is None:
        raise ValueError(f"line {line}: not understood: {flat}")
    return Declaration("opaque", name.group(1), flat)


def complete(source):
    bare = COMMENT.sub("", source)
    if "/*" in bare:
        return False
    if bare.startswith("#define"):
        return not bare.rstrip().endswith("\\")
    balanced = bare.count("{") == bare.count("}") and bare.count("(") == bare.count(")")
    end = bare.rstrip()
    return balanced and (end.endswith(";") or end.startswith("static inline") and
                         end.endswith("}"))


# What declares nothing: directives, and macros that are about the header itself.
SKIPPED = re.compile(r'#(?!define [A-Z]+_)|extern "C" \{$|\}$|'
                     r"#define (LIBETL_API|LIBETL_VERSION|\w+_H$)")


class Header:
    def __init__(self, path):
        lines = path.read_text().split("\n")
        self.path = path
        self.introduction = []
        self.sections = []
        self.declarations = []
        start = 0
        if lines[0].startswith("/*"):
            while "*/" not in lines[start]:
                start += 1
            self.introduction = paragraphs(plain("\n".join(lines[:start + 1])))
            start += 1
        self.read(lines, start)
        self.by_name = {each.name: each for each in self.declarations}

    def read(self, lines, at):
        remark, leader = None, None
        while at < len(lines):
            line = lines[at]
            if line == "" or SKIPPED.match(line):
                if line == "":
                    remark, leader = None, None
                at += 1
                continue
            end = at
            if line.startswith("/*"):
                while "*/" not in lines[end]:
                    end += 1
                text = "\n".join(lines[at:end + 1])
                section = re.match(r"/\* ---- (.*?)(?: ----)?(?: \*/)?\n", text + "\n")
                if section is not None:
                    self.sections.append(
                        Section(section.group(1), paragraphs(plain(text)[1:])))
                else:
                    remark, leader = text, None
                at = end + 1
                continue
            while not complete("\n".join(lines[at:end + 1])):
                end += 1
                if end == len(lines):
                    raise ValueError(f"{self.path}:{at + 1}: a declaration without an end")
            source = "\n".join(lines[at:end + 1])
            made = declaration_of(source, at + 1)
            made.section = self.sections[-1].title if self.sections else ""
            made.line, made.source = at + 1, source
            if leader is not None:
                made.leader = leader.name
            elif remark is not None:
                made.comment = split_comment(plain(remark))
                made.remark = remark
                leader = made
            self.declarations.append(made)
            at = end + 1
