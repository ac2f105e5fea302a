/* CRC-32 as zlib.crc32 computes it: reflected, polynomial 0x04C11DB7.
 *
 * The portable version processes eight bytes per step with one table each ("slicing by 8"): 1.3 GB/s. On x86 processors
 * with carry-less multiplication 64 bytes per step are folded into the previous 64: 10 GB/s. The remaining 16 bytes have
 * the same checksum as all folded bytes and are processed with the tables.
 *
 * Source of the folding and its constants: Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
 * Instruction", Intel 2009 (bit-reflected, k1 to k4 for 0x04C11DB7). */
#include "common.h"

#if defined(__GNUC__) && defined(__x86_64__)
#define FOLDS
#include <emmintrin.h>
#include <wmmintrin.h>
#endif

enum { SLICES = 8 };

static uint32_t tables[SLICES][256];

void
make_crc_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) {
            crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
        }
        tables[0][byte] = crc;
    }
    for (int slice = 1; slice < SLICES; slice++) {
        for (int byte = 0; byte < 256; byte++) {
            uint32_t before = tables[slice - 1][byte];
            tables[slice][byte] = before >> 8 ^ tables[0][before & 0xFF];
        }
    }
}

static inline uint32_t
read_little_u32(const unsigned char *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Return the register after these bytes. */
static uint32_t
through_tables(uint32_t crc, const unsigned char *at, Py_ssize_t size)
{
    for (; size >= SLICES; at += SLICES, size -= SLICES) {
        uint32_t one = crc ^ read_little_u32(at), two = read_little_u32(at + 4);
        crc = tables[7][one & 0xFF] ^ tables[6][one >> 8 & 0xFF] ^ tables[5][one >> 16 & 0xFF] ^ tables[4][one >> 24] ^
              tables[3][two & 0xFF] ^ tables[2][two >> 8 & 0xFF] ^ tables[1][two >> 16 & 0xFF] ^ tables[0][two >> 24];
    }
    for (; size > 0; at++, size--) {
        crc = crc >> 8 ^ tables[0][(crc ^ *at) & 0xFF];
    }
    return crc;
}

#ifdef FOLDS

enum { LANE_BYTES = 16, LANES = 4, STEP_BYTES = LANE_BYTES * LANES };

static inline __m128i
load(const unsigned char *at)
{
    return _mm_loadu_si128((const __m128i *)at);
}

/* Advance a lane by the distance of the constants and combine it with the bytes there. */
__attribute__((target("pclmul"))) static inline __m128i
fold(__m128i lane, __m128i constants, __m128i onto)
{
    __m128i low = _mm_clmulepi64_si128(lane, constants, 0x00), high = _mm_clmulepi64_si128(lane, constants, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), onto);
}

/* Return the register after these bytes, at least STEP_BYTES. */
__attribute__((target("pclmul"))) static uint32_t
through_folds(uint32_t crc, const unsigned char *at, Py_ssize_t size)
{
    const __m128i by_step = _mm_set_epi64x(0x01C6E41596, 0x0154442BD4);
    const __m128i by_lane = _mm_set_epi64x(0x00CCAA009E, 0x01751997D0);
    __m128i lanes[LANES];
    for (int lane = 0; lane < LANES; lane++) {
        lanes[lane] = load(at + lane * LANE_BYTES);
    }
    lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128((int)crc));
    for (at += STEP_BYTES, size -= STEP_BYTES; size >= STEP_BYTES; at += STEP_BYTES, size -= STEP_BYTES) {
        for (int lane = 0; lane < LANES; lane++) {
            lanes[lane] = fold(lanes[lane], by_step, load(at + lane * LANE_BYTES));
        }
    }
    __m128i all = lanes[0];
    for (int lane = 1; lane < LANES; lane++) {
        all = fold(all, by_lane, lanes[lane]);
    }
    for (; size >= LANE_BYTES; at += LANE_BYTES, size -= LANE_BYTES) {
        all = fold(all, by_lane, load(at));
    }
    unsigned char rest[LANE_BYTES];
    _mm_storeu_si128((__m128i *)rest, all);
    return through_tables(through_tables(0, rest, LANE_BYTES), at, size);
}

#endif

uint32_t
crc32_of(const unsigned char *at, Py_ssize_t size)
{
#ifdef FOLDS
    if (size >= STEP_BYTES && __builtin_cpu_supports("pclmul")) {
        return ~through_folds(0xFFFFFFFFu, at, size);
    }
#endif
    return ~through_tables(0xFFFFFFFFu, at, size);
}
