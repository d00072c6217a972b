#!/usr/bin/env python3
"""An independent reader of run files, written from docs/RUN_FORMAT.md alone.

    run_reader.py FILE          verify everything: header, footer, table, blocks, records, order
    run_reader.py --dump FILE   the same, and print each pair: hex key TAB hex value, '-' for nil

Exits with 1 and a message when the file is not a whole run."""
import struct
import sys

HEADER_SIZE, FOOTER_SIZE, ENTRY_SIZE, BLOCK = 64, 128, 8, 16384
HEADER_MAGIC, FOOTER_MAGIC = b"\x89ETLRUN\n", b"\x89ETLEND\n"
NO_RECORD = 0xFFFFFFFF
VALUES_ASCEND = 1
SIZE_MAX = 0xFFFFFFF0


class Corrupt(Exception):
    pass


def make_crc_table():
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


CRC_TABLE = make_crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def require(condition, what, offset):
    if not condition:
        raise Corrupt("%s at offset %d" % (what, offset))


def read_varint(data, at, end):
    result = shift = 0
    start = at
    while True:
        require(at < end and shift < 64, "varint", start)
        byte = data[at]
        at += 1
        result |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            require(result < 1 << 64, "varint", start)
            return result, at


def check_header(data):
    require(len(data) >= HEADER_SIZE + FOOTER_SIZE, "the file ends", len(data))
    magic, version, block = struct.unpack_from("<8sII", data, 0)
    require(magic == HEADER_MAGIC, "magic of the header", 0)
    (crc,) = struct.unpack_from("<I", data, 60)
    require(crc == crc32c(data[:60]), "checksum of the header", 60)
    require(version == 1, "version", 8)
    require(block == BLOCK, "block size", 12)
    require(not any(data[16:60]), "reserved bytes of the header", 16)


def check_footer(data):
    at = len(data) - FOOTER_SIZE
    fields = struct.unpack_from("<8sQQQQQQQI", data, at)
    magic, data_end, blocks, pairs, key_bytes, value_bytes, first, last, table_crc = fields
    require(magic == FOOTER_MAGIC, "magic of the footer", at)
    (crc,) = struct.unpack_from("<I", data, at + 124)
    require(crc == crc32c(data[at : at + 124]), "checksum of the footer", at + 124)
    most = struct.unpack_from("<Q", data, at + 72)[0]
    (flags,) = struct.unpack_from("<I", data, at + 68)
    require(flags & ~VALUES_ASCEND == 0, "flags of the footer", at + 68)
    require(not any(data[at + 80 : at + 124]), "reserved bytes of the footer", at + 80)
    require(HEADER_SIZE <= data_end <= at, "data_end", at + 8)
    require(blocks == (data_end + BLOCK - 1) // BLOCK, "blocks", at + 16)
    require(data_end + blocks * ENTRY_SIZE == at, "size of the table", at + 16)
    require(table_crc == crc32c(data[data_end:at]), "checksum of the table", data_end)
    return data_end, blocks, pairs, key_bytes, value_bytes, first, last, most, flags


def check_blocks(data, data_end, blocks, starts):
    """Checksum of each block, and where its first record begins."""
    first_start = {}
    for start in starts:
        first_start.setdefault(start // BLOCK, start % BLOCK)
    for block in range(blocks):
        at = data_end + block * ENTRY_SIZE
        crc, first = struct.unpack_from("<II", data, at)
        content = data[block * BLOCK : min((block + 1) * BLOCK, data_end)]
        require(crc == crc32c(content), "checksum of the block", block * BLOCK)
        require(first == first_start.get(block, NO_RECORD), "first record of the block", at)


def read_records(data, data_end):
    """Yields (offset, key, value) with value None for nil."""
    at = HEADER_SIZE
    while at < data_end:
        start = at
        key_size, at = read_varint(data, at, data_end)
        code, at = read_varint(data, at, data_end)
        value_size = max(code - 1, 0)
        require(key_size <= SIZE_MAX and value_size <= SIZE_MAX, "lengths of a record", start)
        require(key_size + value_size <= data_end - at, "a record passes data_end", start)
        key = data[at : at + key_size]
        at += key_size
        value = None if code == 0 else data[at : at + value_size]
        at += value_size
        yield start, key, value


def read_run(data):
    check_header(data)
    data_end, blocks, pairs, key_bytes, value_bytes, first, last, most, flags = check_footer(data)
    records = list(read_records(data, data_end))
    check_blocks(data, data_end, blocks, [start for start, _, _ in records])
    require(len(records) == pairs, "number of pairs", len(data) - FOOTER_SIZE + 24)
    require(sum(len(key) for _, key, _ in records) == key_bytes, "key_bytes", 0)
    require(sum(len(value or b"") for _, _, value in records) == value_bytes, "value_bytes", 0)
    require(first == HEADER_SIZE, "first_record", first)
    require(last == (records[-1][0] if records else data_end), "last_record", last)
    ends = [start for start, _, _ in records[1:]] + [data_end]
    require(records or most == 0, "record_most", len(data) - FOOTER_SIZE + 72)
    for (start, _, _), end in zip(records, ends):
        require(end - start <= most, "record_most", start)
    previous, before = b"", ()
    for start, key, value in records:
        require(previous <= key, "order of keys", start)
        rank = () if value is None else (value,)
        if flags & VALUES_ASCEND and previous == key:
            require(before <= rank, "order of values", start)
        previous, before = key, rank
    return records


def main(arguments):
    dump = arguments[:1] == ["--dump"]
    if len(arguments) != (2 if dump else 1):
        print(__doc__, file=sys.stderr)
        return 2
    name = arguments[-1]
    try:
        with open(name, "rb") as file:
            records = read_run(file.read())
    except (Corrupt, OSError) as error:
        print("%s: %s" % (name, error), file=sys.stderr)
        return 1
    if dump:
        sys.stdout.writelines(
            "%s\t%s\n" % (key.hex(), "-" if value is None else value.hex())
            for _, key, value in records
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
