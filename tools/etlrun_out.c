/* etlrun_out.c: bytes as text that a person can read, and as JSON, on standard output.
 *
 * One buffer, written when it is full. The first error stays: what comes later is dropped, so that a
 * command need look at it only once a pair. */
#include "etlrun.h"

static struct {
    unsigned char bytes[1 << 16];
    size_t used;
    int error; /* errno of the first write that failed */
} out;

static void flush(void) {
    const unsigned char *from = out.bytes;
    size_t left = out.error == 0 ? out.used : 0;
    out.used = 0;
    if (left != 0)
        console_clear(&etlrun_console);
    while (left != 0) {
        ssize_t wrote = write(STDOUT_FILENO, from, left);
        if (wrote < 0 && (errno != EINTR || etlrun_console.interrupted)) {
            out.error = errno;
            return;
        }
        from += wrote > 0 ? wrote : 0;
        left -= wrote > 0 ? (size_t)wrote : 0;
    }
}

void etlrun_out(const void *data, size_t size) {
    const unsigned char *from = data;
    while (size != 0) {
        if (out.used == sizeof out.bytes)
            flush();
        size_t room = sizeof out.bytes - out.used, piece = size < room ? size : room;
        memcpy(out.bytes + out.used, from, piece);
        out.used += piece;
        from += piece;
        size -= piece;
    }
}

void etlrun_out_string(const char *string) {
    etlrun_out(string, strlen(string));
}

void etlrun_out_number(uint64_t number) {
    char digits[24];
    etlrun_out(digits, (size_t)snprintf(digits, sizeof digits, "%" PRIu64, number));
}

bool etlrun_out_failed(void) {
    return out.error != 0;
}

int etlrun_out_end(void) {
    flush();
    if (out.error == 0 || etlrun_console.interrupted)
        return EXIT_SUCCESS;
    if (out.error == EPIPE)
        return EXIT_SIGNAL + SIGPIPE;
    console_complain(&etlrun_console, "standard output: %s", strerror(out.error));
    return EXIT_TROUBLE;
}

/* ---- Escapes */

/* Bytes are encoded in pieces, for each of which there is room at once. */
enum { PIECE = 4096, PIECE_MOST = 6 * PIECE /* \u00HH */ };

static unsigned char *begin_piece(void) {
    if (sizeof out.bytes - out.used < PIECE_MOST)
        flush();
    return out.bytes + out.used;
}

static void end_piece(const unsigned char *end) {
    out.used = (size_t)(end - out.bytes);
}

static unsigned char *put_hex(unsigned char *to, unsigned char byte) {
    static const char digits[] = "0123456789abcdef";
    *to++ = (unsigned char)digits[byte >> 4];
    *to++ = (unsigned char)digits[byte & 15];
    return to;
}

typedef unsigned char *encode_fn(unsigned char *to, unsigned char byte);

static inline void out_encoded(const unsigned char *from, size_t size, encode_fn *encode) {
    while (size != 0) {
        size_t piece = size < PIECE ? size : PIECE;
        unsigned char *to = begin_piece();
        for (size_t i = 0; i < piece; i++)
            to = encode(to, from[i]);
        end_piece(to);
        from += piece;
        size -= piece;
    }
}

static inline unsigned char *put_escaped(unsigned char *to, unsigned char byte) {
    if (byte >= ' ' && byte <= '~') {
        if (byte == '\\')
            *to++ = byte;
        *to++ = byte;
        return to;
    }
    *to++ = '\\';
    *to++ = 'x';
    return put_hex(to, byte);
}

void etlrun_out_escaped(etl_slice bytes) {
    out_encoded(bytes.data, bytes.size, put_escaped);
}

static int hex_value(char digit) {
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    digit |= 0x20;
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

bool etlrun_parse_escaped(char *text, etl_slice *bytes) {
    char *to = text;
    for (const char *at = text; *at != '\0';) {
        if (*at != '\\') {
            *to++ = *at++;
        } else if (at[1] == '\\') {
            *to++ = '\\';
            at += 2;
        } else {
            if (at[1] != 'x' || hex_value(at[2]) < 0 || hex_value(at[3]) < 0)
                return false;
            *to++ = (char)(hex_value(at[2]) * 16 + hex_value(at[3]));
            at += 4;
        }
    }
    *bytes = etl_slice_of(text, (size_t)(to - text));
    return true;
}

/* ---- JSON (RFC 8259) */

/* Bytes of the code point at `at`, as RFC 3629 has it: shortest form, no surrogates, up to
 * U+10FFFF. 0 when there is none. */
static size_t code_point(const unsigned char *at, size_t left) {
    unsigned char lead = at[0];
    if (lead < 0x80)
        return 1;
    size_t size = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
    if (size == 0 || size > left)
        return 0;
    unsigned char least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    unsigned char most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (at[1] < least || at[1] > most)
        return 0;
    for (size_t i = 2; i < size; i++)
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    return size;
}

static bool is_utf8(const unsigned char *at, size_t left) {
    while (left != 0) {
        size_t size = code_point(at, left);
        if (size == 0)
            return false;
        at += size;
        left -= size;
    }
    return true;
}

static inline unsigned char *put_json(unsigned char *to, unsigned char byte) {
    if (byte >= ' ' && byte != 0x7F) {
        if (byte == '"' || byte == '\\')
            *to++ = '\\';
        *to++ = byte;
        return to;
    }
    memcpy(to, "\\u00", 4);
    return put_hex(to + 4, byte);
}

void etlrun_out_json(etl_slice bytes) {
    const unsigned char *at = bytes.data;
    if (at == NULL) {
        etlrun_out_string("null");
    } else if (is_utf8(at, bytes.size)) {
        etlrun_out("\"", 1);
        out_encoded(at, bytes.size, put_json);
        etlrun_out("\"", 1);
    } else {
        etlrun_out_string("{\"hex\":\"");
        out_encoded(at, bytes.size, put_hex);
        etlrun_out_string("\"}");
    }
}
