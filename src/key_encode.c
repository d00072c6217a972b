/* key_encode.c: values as bytes that sort as the values do, and back; docs/KEYS.md has the layouts.
 *
 * Numbers are big-endian. Signed ones have their sign bit flipped; of floating-point ones the sign
 * bit where it is clear, all bits where it is set, which is the total order of IEEE 754 once the
 * NaNs are made one (Herf, "Radix tricks", 2001; Berkeley DB's sorted doubles). Byte strings escape
 * 0x00 as 0x00 0xFF, as FoundationDB's tuples and CockroachDB do, and end in 0x00 0x00: a
 * terminator of one byte could be mistaken for an escape when a number that begins with 0xFF
 * follows.
 *
 * No encoding is the beginning of another one of its type. So a component never decides by the
 * bytes of the next one, the concatenation compares as the tuple, and complementing the bytes of a
 * component reverses its order and nothing else.
 *
 * Each value has one encoding, and readers refuse every other: keys are equal as bytes where they
 * are equal as values. Memory: none; a string is measured before it is copied, so that a reader
 * that fails has changed nothing.
 *
 * Not chosen: groups of eight bytes with a marker (MyRocks, TiDB), which make nine bytes of a
 * short string. */
#include "key.h"
#include "status.h"

#include <assert.h>
#include <float.h>

#define ESCAPED_ZERO 0xFF /* after a 0x00: it is one of the value */
#define TERMINATOR   0x00 /* after a 0x00: it is the end */

_Static_assert(sizeof(float) == 4 && FLT_MANT_DIG == 24, "float is IEEE 754 binary32");
_Static_assert(sizeof(double) == 8 && DBL_MANT_DIG == 53, "double is IEEE 754 binary64");

static bool is_order(etl_key_order order) {
    return order == ETL_KEY_ASCENDING || order == ETL_KEY_DESCENDING;
}

/* ---- Numbers: `size` bytes, whose order as unsigned bits is the values' */

static inline uint8_t *put_bits(uint8_t *to, uint64_t bits, size_t size, etl_key_order order) {
    assert(to != NULL && is_order(order));
    if (order == ETL_KEY_DESCENDING)
        bits = ~bits;
    bits <<= 8 * (sizeof bits - size);
    uint64_t bytes = etl__load_be64((const uint8_t *)&bits); /* which is its own inverse */
    memcpy(to, &bytes, size);
    return to + size;
}

/* The bits of the first component, which is not taken off yet. */
static inline int peek(const etl_slice *key, uint64_t *bits, size_t size, etl_key_order order) {
    if (key == NULL || !etl__is_slice(*key) || !is_order(order))
        return ETL_E_INVALID;
    if (key->size < size)
        return ETL_E_CORRUPT;
    uint8_t bytes[sizeof *bits] = {0};
    memcpy(bytes, key->data, size);
    unsigned unused = 8 * (unsigned)(sizeof *bits - size);
    *bits = (etl__load_be64(bytes) ^ (order == ETL_KEY_DESCENDING ? UINT64_MAX : 0)) >> unused;
    return ETL_OK;
}

static inline void skip_bytes(etl_slice *key, size_t size) {
    key->data = (const uint8_t *)key->data + size;
    key->size -= size;
}

static inline int get(etl_slice *key, uint64_t *bits, size_t size, etl_key_order order) {
    ETL__TRY(peek(key, bits, size, order));
    skip_bytes(key, size);
    return ETL_OK;
}

uint8_t *etl_key_put_u8(uint8_t *to, uint8_t value, etl_key_order order) {
    return put_bits(to, value, sizeof value, order);
}

uint8_t *etl_key_put_u16(uint8_t *to, uint16_t value, etl_key_order order) {
    return put_bits(to, value, sizeof value, order);
}

uint8_t *etl_key_put_u32(uint8_t *to, uint32_t value, etl_key_order order) {
    return put_bits(to, value, sizeof value, order);
}

uint8_t *etl_key_put_u64(uint8_t *to, uint64_t value, etl_key_order order) {
    return put_bits(to, value, sizeof value, order);
}

int etl_key_get_u8(etl_slice *key, uint8_t *value, etl_key_order order) {
    uint64_t bits;
    ETL__TRY(get(key, &bits, sizeof *value, order));
    if (value != NULL)
        *value = (uint8_t)bits;
    return ETL_OK;
}

int etl_key_get_u16(etl_slice *key, uint16_t *value, etl_key_order order) {
    uint64_t bits;
    ETL__TRY(get(key, &bits, sizeof *value, order));
    if (value != NULL)
        *value = (uint16_t)bits;
    return ETL_OK;
}

int etl_key_get_u32(etl_slice *key, uint32_t *value, etl_key_order order) {
    uint64_t bits;
    ETL__TRY(get(key, &bits, sizeof *value, order));
    if (value != NULL)
        *value = (uint32_t)bits;
    return ETL_OK;
}

int etl_key_get_u64(etl_slice *key, uint64_t *value, etl_key_order order) {
    uint64_t bits;
    ETL__TRY(get(key, &bits, sizeof *value, order));
    if (value != NULL)
        *value = bits;
    return ETL_OK;
}

/* ---- Signed numbers: counted from the smallest one */

static inline uint64_t sign_bit(size_t size) {
    return (uint64_t)1 << (8 * size - 1);
}

static inline uint8_t *put_signed(uint8_t *to, int64_t value, size_t size, etl_key_order order) {
    return put_bits(to, (uint64_t)value ^ sign_bit(size), size, order);
}

static inline int get_signed(etl_slice *key, int64_t *value, size_t size, etl_key_order order) {
    uint64_t bits, zero = sign_bit(size);
    ETL__TRY(get(key, &bits, size, order));
    *value = bits >= zero ? (int64_t)(bits - zero) : -1 - (int64_t)(zero - 1 - bits);
    return ETL_OK;
}

uint8_t *etl_key_put_i8(uint8_t *to, int8_t value, etl_key_order order) {
    return put_signed(to, value, sizeof value, order);
}

uint8_t *etl_key_put_i16(uint8_t *to, int16_t value, etl_key_order order) {
    return put_signed(to, value, sizeof value, order);
}

uint8_t *etl_key_put_i32(uint8_t *to, int32_t value, etl_key_order order) {
    return put_signed(to, value, sizeof value, order);
}

uint8_t *etl_key_put_i64(uint8_t *to, int64_t value, etl_key_order order) {
    return put_signed(to, value, sizeof value, order);
}

int etl_key_get_i8(etl_slice *key, int8_t *value, etl_key_order order) {
    int64_t wide;
    ETL__TRY(get_signed(key, &wide, sizeof *value, order));
    if (value != NULL)
        *value = (int8_t)wide;
    return ETL_OK;
}

int etl_key_get_i16(etl_slice *key, int16_t *value, etl_key_order order) {
    int64_t wide;
    ETL__TRY(get_signed(key, &wide, sizeof *value, order));
    if (value != NULL)
        *value = (int16_t)wide;
    return ETL_OK;
}

int etl_key_get_i32(etl_slice *key, int32_t *value, etl_key_order order) {
    int64_t wide;
    ETL__TRY(get_signed(key, &wide, sizeof *value, order));
    if (value != NULL)
        *value = (int32_t)wide;
    return ETL_OK;
}

int etl_key_get_i64(etl_slice *key, int64_t *value, etl_key_order order) {
    int64_t wide;
    ETL__TRY(get_signed(key, &wide, sizeof *value, order));
    if (value != NULL)
        *value = wide;
    return ETL_OK;
}

/* ---- Floating point. By bits alone: isnan may be compiled away by -ffast-math. */

/* What is particular to a width: its size, and the bits of its one NaN and of infinity. */
struct format {
    size_t size;
    uint64_t infinity, nan;
};

static const struct format binary32 = {4, 0x7F800000, 0x7FC00000};
static const struct format binary64 = {8, 0x7FF0000000000000, 0x7FF8000000000000};

static uint8_t *put_float(uint8_t *to, uint64_t bits, const struct format *format,
                          etl_key_order order) {
    uint64_t sign = sign_bit(format->size);
    if ((bits & ~sign) > format->infinity)
        bits = format->nan;
    bits ^= (bits & sign) != 0 ? UINT64_MAX : sign;
    return put_bits(to, bits, format->size, order);
}

static int get_float(etl_slice *key, uint64_t *bits, const struct format *format,
                     etl_key_order order) {
    uint64_t sign = sign_bit(format->size), found;
    ETL__TRY(peek(key, &found, format->size, order));
    found ^= (found & sign) != 0 ? sign : sign | (sign - 1);
    if ((found & ~sign) > format->infinity && found != format->nan)
        return ETL_E_CORRUPT;
    *bits = found;
    skip_bytes(key, format->size);
    return ETL_OK;
}

uint8_t *etl_key_put_float(uint8_t *to, float value, etl_key_order order) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return put_float(to, bits, &binary32, order);
}

uint8_t *etl_key_put_double(uint8_t *to, double value, etl_key_order order) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return put_float(to, bits, &binary64, order);
}

int etl_key_get_float(etl_slice *key, float *value, etl_key_order order) {
    uint64_t wide;
    ETL__TRY(get_float(key, &wide, &binary32, order));
    uint32_t bits = (uint32_t)wide;
    if (value != NULL)
        memcpy(value, &bits, sizeof bits);
    return ETL_OK;
}

int etl_key_get_double(etl_slice *key, double *value, etl_key_order order) {
    uint64_t bits;
    ETL__TRY(get_float(key, &bits, &binary64, order));
    if (value != NULL)
        memcpy(value, &bits, sizeof bits);
    return ETL_OK;
}

/* ---- Byte strings: what every byte is combined with is also what a zero becomes */

static uint8_t mask_of(etl_key_order order) {
    return order == ETL_KEY_DESCENDING ? 0xFF : 0;
}

size_t etl_key_bytes_size(etl_slice value) {
    assert(etl__is_slice(value));
    const uint8_t *from = value.data;
    size_t added = 2;
    for (size_t i = 0; i < value.size; i++)
        added += from[i] == 0;
    return value.size > SIZE_MAX - added ? SIZE_MAX : value.size + added;
}

uint8_t *etl_key_put_bytes(uint8_t *to, etl_slice value, etl_key_order order) {
    assert(to != NULL && etl__is_slice(value) && is_order(order));
    const uint8_t *from = value.data;
    uint8_t mask = mask_of(order);
    for (size_t i = 0; i < value.size; i++) {
        *to++ = from[i] ^ mask;
        if (from[i] == 0)
            *to++ = ESCAPED_ZERO ^ mask;
    }
    *to++ = mask;
    *to++ = TERMINATOR ^ mask;
    return to;
}

/* How long the string at from is, encoded and as a value. */
static int measure_bytes(etl_slice key, uint8_t mask, size_t *encoded, size_t *size) {
    const uint8_t *from = key.data;
    size_t at = 0, values = 0;
    for (;;) {
        const uint8_t *zero = at < key.size ? memchr(from + at, mask, key.size - at) : NULL;
        if (zero == NULL)
            return ETL_E_CORRUPT;
        size_t next = (size_t)(zero - from) + 1;
        if (next == key.size)
            return ETL_E_CORRUPT;
        values += next - 1 - at;
        at = next + 1;
        uint8_t kind = from[next] ^ mask;
        if (kind == TERMINATOR)
            break;
        if (kind != ESCAPED_ZERO)
            return ETL_E_CORRUPT;
        values++;
    }
    *encoded = at;
    *size = values;
    return ETL_OK;
}

int etl_key_get_bytes(etl_slice *key, void *out, size_t capacity, size_t *size,
                      etl_key_order order) {
    if (key == NULL || !etl__is_slice(*key) || !is_order(order))
        return ETL_E_INVALID;
    uint8_t mask = mask_of(order);
    size_t encoded, values;
    ETL__TRY(measure_bytes(*key, mask, &encoded, &values));
    if (size != NULL)
        *size = values;
    if (out != NULL && values > capacity)
        return ETL_E_TOO_LARGE;
    if (out != NULL) {
        const uint8_t *from = key->data;
        uint8_t *to = out;
        for (size_t i = 0; i < values; i++) {
            to[i] = *from++ ^ mask;
            from += to[i] == 0;
        }
    }
    skip_bytes(key, encoded);
    return ETL_OK;
}
