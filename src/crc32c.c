/* crc32c.c: CRC-32C by the processor's instruction where it has one, else by tables.
 *
 * Hardware  The instruction takes eight bytes in one cycle, but has its result three cycles later:
 *           one stream runs at a third of the speed. So three streams run over neighbouring
 *           pieces of equal length, and are joined at the end (Gopal et al., Intel 2011): the
 *           checksum of A B is that of A, moved on by as many zero bytes as B has, xor that of B
 *           alone. Moving on by a fixed length is linear in the 32 bits, so eight tables of 16
 *           entries do it. Two lengths: a block of a run (16 KiB) is one long round and two words,
 *           the rest of anything goes by short rounds.
 * Portable  Slicing by eight (Kounavis and Berry 2005): eight table look-ups for eight bytes.
 *
 * All tables are constants: being linear too, each is spelled out by the preprocessor from the
 * values of its single bits. Nothing is computed at run time, so nothing can race.
 *
 * Not chosen: carry-less multiplication to join the streams, or to do all of the work: faster only
 * with vectors wider than every machine has, and another set of features to ask for. */
#include "crc32c.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#define XOR4(a, b, c, d, i) \
    (((i)&1 ? (a) : 0u) ^ ((i)&2 ? (b) : 0u) ^ ((i)&4 ? (c) : 0u) ^ ((i)&8 ? (d) : 0u))

/* 16 entries from the values of four bits. */
#define ROW(x, a, b, c, d)                                                                  \
    (x) ^ XOR4(a, b, c, d, 0), (x) ^ XOR4(a, b, c, d, 1), (x) ^ XOR4(a, b, c, d, 2),        \
        (x) ^ XOR4(a, b, c, d, 3), (x) ^ XOR4(a, b, c, d, 4), (x) ^ XOR4(a, b, c, d, 5),    \
        (x) ^ XOR4(a, b, c, d, 6), (x) ^ XOR4(a, b, c, d, 7), (x) ^ XOR4(a, b, c, d, 8),    \
        (x) ^ XOR4(a, b, c, d, 9), (x) ^ XOR4(a, b, c, d, 10), (x) ^ XOR4(a, b, c, d, 11),  \
        (x) ^ XOR4(a, b, c, d, 12), (x) ^ XOR4(a, b, c, d, 13), (x) ^ XOR4(a, b, c, d, 14), \
        (x) ^ XOR4(a, b, c, d, 15)

#define NIBBLE(a, b, c, d) \
    { ROW(0u, a, b, c, d) }

/* 256 entries from the values of eight bits. */
#define BYTE(a, b, c, d, e, f, g, h)                                                      \
    {                                                                                     \
        ROW(XOR4(e, f, g, h, 0), a, b, c, d), ROW(XOR4(e, f, g, h, 1), a, b, c, d),       \
            ROW(XOR4(e, f, g, h, 2), a, b, c, d), ROW(XOR4(e, f, g, h, 3), a, b, c, d),   \
            ROW(XOR4(e, f, g, h, 4), a, b, c, d), ROW(XOR4(e, f, g, h, 5), a, b, c, d),   \
            ROW(XOR4(e, f, g, h, 6), a, b, c, d), ROW(XOR4(e, f, g, h, 7), a, b, c, d),   \
            ROW(XOR4(e, f, g, h, 8), a, b, c, d), ROW(XOR4(e, f, g, h, 9), a, b, c, d),   \
            ROW(XOR4(e, f, g, h, 10), a, b, c, d), ROW(XOR4(e, f, g, h, 11), a, b, c, d), \
            ROW(XOR4(e, f, g, h, 12), a, b, c, d), ROW(XOR4(e, f, g, h, 13), a, b, c, d), \
            ROW(XOR4(e, f, g, h, 14), a, b, c, d), ROW(XOR4(e, f, g, h, 15), a, b, c, d)  \
    }

/* slicing[k][b]: the byte b followed by k zero bytes. */
static const uint32_t slicing[8][256] = {
    BYTE(0xF26B8303, 0xE13B70F7, 0xC79A971F, 0x8AD958CF, 0x105EC76F, 0x20BD8EDE, 0x417B1DBC,
         0x82F63B78),
    BYTE(0x13A29877, 0x274530EE, 0x4E8A61DC, 0x9D14C3B8, 0x3FC5F181, 0x7F8BE302, 0xFF17C604,
         0xFBC3FAF9),
    BYTE(0xA541927E, 0x4F6F520D, 0x9EDEA41A, 0x38513EC5, 0x70A27D8A, 0xE144FB14, 0xC76580D9,
         0x8B277743),
    BYTE(0xDD45AAB8, 0xBF672381, 0x7B2231F3, 0xF64463E6, 0xE964B13D, 0xD725148B, 0xABA65FE7,
         0x52A0C93F),
    BYTE(0x38116FAC, 0x7022DF58, 0xE045BEB0, 0xC5670B91, 0x8F2261D3, 0x1BA8B557, 0x37516AAE,
         0x6EA2D55C),
    BYTE(0xEF306B19, 0xDB8CA0C3, 0xB2F53777, 0x6006181F, 0xC00C303E, 0x85F4168D, 0x0E045BEB,
         0x1C08B7D6),
    BYTE(0x68032CC8, 0xD0065990, 0xA5E0C5D1, 0x4E2DFD53, 0x9C5BFAA6, 0x3D5B83BD, 0x7AB7077A,
         0xF56E0EF4),
    BYTE(0x493C7D27, 0x9278FA4E, 0x211D826D, 0x423B04DA, 0x847609B4, 0x0D006599, 0x1A00CB32,
         0x34019664),
};

static inline uint64_t load_le64(const uint8_t *at) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
#else
    uint64_t word = 0;
    for (int i = 0; i < 8; i++)
        word |= (uint64_t)at[i] << (8 * i);
    return word;
#endif
}

uint32_t etl__crc32c_portable(uint32_t checksum, const void *data, size_t size) {
    const uint8_t *at = data;
    uint32_t crc = ~checksum;
    for (; size >= 8; size -= 8, at += 8) {
        uint64_t x = load_le64(at) ^ crc;
        crc = slicing[7][x & 255] ^ slicing[6][x >> 8 & 255] ^ slicing[5][x >> 16 & 255] ^
              slicing[4][x >> 24 & 255] ^ slicing[3][x >> 32 & 255] ^ slicing[2][x >> 40 & 255] ^
              slicing[1][x >> 48 & 255] ^ slicing[0][x >> 56];
    }
    for (; size != 0; size--, at++)
        crc = crc >> 8 ^ slicing[0][(crc ^ *at) & 255];
    return ~crc;
}

/* ---- The instruction */

#if defined(__x86_64__) && defined(__GNUC__)
#include <nmmintrin.h>
#define HARDWARE          __attribute__((target("sse4.2")))
#define STEP_8(crc, word) _mm_crc32_u64(crc, word)
#define STEP_1(crc, byte) _mm_crc32_u8((uint32_t)(crc), byte)

static bool hardware_has_crc(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2");
}

#elif defined(__aarch64__) && defined(__GNUC__)
#if defined(__linux__)
#include <sys/auxv.h>
#endif
/* By assembler: the intrinsics' header shows them only to whole files built for them. */
#define HARDWARE
#define STEP_8(crc, word) step_8(crc, word)
#define STEP_1(crc, byte) step_1(crc, byte)

static inline uint64_t step_8(uint64_t crc, uint64_t word) {
    uint32_t result;
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w1, %x2"
            : "=r"(result)
            : "r"((uint32_t)crc), "r"(word));
    return result;
}

static inline uint64_t step_1(uint64_t crc, uint8_t byte) {
    uint32_t result;
    __asm__(".arch_extension crc\n\tcrc32cb %w0, %w1, %w2"
            : "=r"(result)
            : "r"((uint32_t)crc), "r"((uint32_t)byte));
    return result;
}

static bool hardware_has_crc(void) {
#if defined(__ARM_FEATURE_CRC32)
    return true;
#elif defined(__linux__)
    return (getauxval(AT_HWCAP) & 1u << 7) != 0; /* HWCAP_CRC32 */
#else
    return false;
#endif
}
#endif

#if defined(HARDWARE)

enum { LONG = 5456, SHORT = 336 }; /* bytes of one of the three streams */

/* after_long[n][v]: the bits v of nibble n, followed by LONG zero bytes. */
static const uint32_t after_long[8][16] = {
    NIBBLE(0xBCD0CA25, 0x7C4DE2BB, 0xF89BC576, 0xF4DBFC1D),
    NIBBLE(0xEC5B8ECB, 0xDD5B6B67, 0xBF5AA03F, 0x7B59368F),
    NIBBLE(0xF6B26D1E, 0xE888ACCD, 0xD4FD2F6B, 0xAC162827),
    NIBBLE(0x5DC026BF, 0xBB804D7E, 0x72ECEC0D, 0xE5D9D81A),
    NIBBLE(0xCE5FC6C5, 0x9953FB7B, 0x374B8007, 0x6E97000E),
    NIBBLE(0xDD2E001C, 0xBFB076C9, 0x7A8C9B63, 0xF51936C6),
    NIBBLE(0xEFDE1B7D, 0xDA50400B, 0xB14CF6E7, 0x67759B3F),
    NIBBLE(0xCEEB367E, 0x983A1A0D, 0x359842EB, 0x6B3085D6),
};

static const uint32_t after_short[8][16] = {
    NIBBLE(0x8F158014, 0x1BC776D9, 0x378EEDB2, 0x6F1DDB64),
    NIBBLE(0xDE3BB6C8, 0xB99B1B61, 0x76DA4033, 0xEDB48066),
    NIBBLE(0xDE85763D, 0xB8E69A8B, 0x742143E7, 0xE84287CE),
    NIBBLE(0xD569796D, 0xAF3E842B, 0x5B917EA7, 0xB722FD4E),
    NIBBLE(0x6BA98C6D, 0xD75318DA, 0xAB4A4745, 0x5378F87B),
    NIBBLE(0xA6F1F0F6, 0x480F971D, 0x901F2E3A, 0x25D22A85),
    NIBBLE(0x4BA4550A, 0x9748AA14, 0x2B7D22D9, 0x56FA45B2),
    NIBBLE(0xADF48B64, 0x5E056039, 0xBC0AC072, 0x7DF9F615),
};

static inline uint64_t move_on(const uint32_t table[8][16], uint64_t crc) {
    return table[0][crc & 15] ^ table[1][crc >> 4 & 15] ^ table[2][crc >> 8 & 15] ^
           table[3][crc >> 12 & 15] ^ table[4][crc >> 16 & 15] ^ table[5][crc >> 20 & 15] ^
           table[6][crc >> 24 & 15] ^ table[7][crc >> 28 & 15];
}

/* Three neighbouring pieces of `length` bytes, a multiple of 8. */
HARDWARE static inline uint64_t three_streams(uint64_t crc, const uint8_t *at, size_t length,
                                              const uint32_t table[8][16]) {
    uint64_t second = 0, third = 0;
    for (const uint8_t *end = at + length; at < end; at += 8) {
        crc = STEP_8(crc, load_le64(at));
        second = STEP_8(second, load_le64(at + length));
        third = STEP_8(third, load_le64(at + 2 * length));
    }
    return move_on(table, move_on(table, crc) ^ second) ^ third;
}

HARDWARE static uint32_t crc32c_hardware(uint32_t checksum, const void *data, size_t size) {
    const uint8_t *at = data;
    uint64_t crc = ~checksum;
    for (; size >= 3 * LONG; size -= 3 * LONG, at += 3 * LONG)
        crc = three_streams(crc, at, LONG, after_long);
    for (; size >= 3 * SHORT; size -= 3 * SHORT, at += 3 * SHORT)
        crc = three_streams(crc, at, SHORT, after_short);
    for (; size >= 8; size -= 8, at += 8)
        crc = STEP_8(crc, load_le64(at));
    for (; size != 0; size--, at++)
        crc = STEP_1(crc, *at);
    return ~(uint32_t)crc;
}

uint32_t etl__crc32c(uint32_t checksum, const void *data, size_t size) {
    /* 0: not asked yet. Threads that ask at once find the same answer. */
    enum { NO = 1, YES = 2 };
    static atomic_int known;
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (answer == 0) {
        answer = hardware_has_crc() ? YES : NO;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == YES ? crc32c_hardware(checksum, data, size)
                         : etl__crc32c_portable(checksum, data, size);
}

#else

uint32_t etl__crc32c(uint32_t checksum, const void *data, size_t size) {
    return etl__crc32c_portable(checksum, data, size);
}

#endif
