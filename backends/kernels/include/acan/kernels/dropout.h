/* Dropout: element e of the whole value takes word e mod 4 of the Philox counter (e / 4, high), as
 * model/dropout.h defines. The forward and the backward pass draw the same words. */
#ifndef ACAN_KERNELS_DROPOUT_H
#define ACAN_KERNELS_DROPOUT_H

/* The number of counters that are drawn side by side. */
#define ACAN_DRAWS 32

/* words[4 * q + j] is the upper 24 bits of word j of the counter (first + q, high). Like
 * acan_philox, but with the loop over the counters inside, so that it vectorises. */
ACAN_FN void acan_draw(acan_u64 key, acan_u64 first, acan_u64 high, acan_i32* words) {
  acan_u32 c0[ACAN_DRAWS], c1[ACAN_DRAWS], c2[ACAN_DRAWS], c3[ACAN_DRAWS];
  acan_u32 k0 = (acan_u32)key;
  acan_u32 k1 = (acan_u32)(key >> 32);
  int round;
  int q;
  for (q = 0; q < ACAN_DRAWS; ++q) {
    const acan_u64 low = first + (acan_u64)q;
    c0[q] = (acan_u32)low;
    c1[q] = (acan_u32)(low >> 32);
    c2[q] = (acan_u32)high;
    c3[q] = (acan_u32)(high >> 32);
  }
  for (round = 0; round < 10; ++round) {
    for (q = 0; q < ACAN_DRAWS; ++q) {
      const acan_u64 p0 = (acan_u64)0xD2511F53u * c0[q];
      const acan_u64 p1 = (acan_u64)0xCD9E8D57u * c2[q];
      c0[q] = (acan_u32)(p1 >> 32) ^ c1[q] ^ k0;
      c2[q] = (acan_u32)(p0 >> 32) ^ c3[q] ^ k1;
      c1[q] = (acan_u32)p1;
      c3[q] = (acan_u32)p0;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (q = 0; q < ACAN_DRAWS; ++q) {
    words[4 * q] = (acan_i32)(c0[q] >> 8);
    words[4 * q + 1] = (acan_i32)(c1[q] >> 8);
    words[4 * q + 2] = (acan_i32)(c2[q] >> 8);
    words[4 * q + 3] = (acan_i32)(c3[q] >> 8);
  }
}

/* The least 24-bit word that is kept: word * 2^-24 >= rate exactly if word >= this value. */
ACAN_FN acan_i32 acan_least_kept(float rate) {
  const float scaled = rate * 16777216.0f;
  const acan_i32 down = (acan_i32)scaled;
  return (float)down < scaled ? down + 1 : down;
}

#if ACAN_ROW_IS_SHARED

/* By a row's threads. Each thread draws a counter at a time, for the elements of that counter. */
ACAN_FN void acan_drop_elements(const acan_args* a, acan_i64 r) {
  const acan_i64 place = (a->i[3] + r) * a->i[5] + a->i[4];
  const acan_i64 end = place + a->m[0].cols;
  const acan_i32 least = acan_least_kept(a->f[0]);
  acan_i64 quad;
  int j;
  for (quad = place / 4 + ACAN_ROW_THREAD; quad * 4 < end; quad += ACAN_ROW_THREADS) {
    const acan_philox4 drawn = acan_philox((acan_u64)a->i[1], (acan_u64)quad, (acan_u64)a->i[2]);
    ACAN_UNROLL for (j = 0; j < 4; ++j) {
      const acan_i64 c = quad * 4 + j - place;
      if ((c >= 0) & (c < a->m[0].cols)) {
        const float x = acan_load(&a->m[1], r, c) * a->f[1];
        acan_store(&a->m[0], r, c, (acan_i32)(drawn.v[j] >> 8) >= least ? x : 0.0f);
      }
    }
  }
}

#else

ACAN_FN void acan_drop_elements(const acan_args* a, acan_i64 r) {
  acan_i32 words[4 * ACAN_DRAWS];
  const acan_i64 cols = a->m[0].cols;
  const acan_u64 place = (acan_u64)((a->i[3] + r) * a->i[5] + a->i[4]);
  const acan_i32 least = acan_least_kept(a->f[0]);
  const float scale = a->f[1];
  acan_i64 begin = 0;
  acan_i64 t;
  while (begin < cols) {
    const acan_u64 element = place + (acan_u64)begin;
    const acan_i64 skip = (acan_i64)(element % 4);
    const acan_i64 left = cols - begin;
    const acan_i64 n = left < 4 * ACAN_DRAWS - skip ? left : 4 * ACAN_DRAWS - skip;
    acan_draw((acan_u64)a->i[1], element / 4, (acan_u64)a->i[2], words);
    ACAN_INDEPENDENT
    for (t = 0; t < n; ++t) {
      const float x = acan_load(&a->m[1], r, begin + t) * scale;
      acan_store(&a->m[0], r, begin + t, words[skip + t] >= least ? x : 0.0f);
    }
    begin += n;
  }
}

#endif /* ACAN_ROW_IS_SHARED */

ACAN_FN void acan_dropout(const acan_args* a, acan_i64 r) {
  acan_philox4 drawn;
  acan_u64 sample;
  acan_i64 c;
  int keep;
  if (a->i[0] == ACAN_DROP_ELEMENTS) {
    acan_drop_elements(a, r);
    return;
  }
  sample = (acan_u64)((a->i[3] + r) / a->i[6]);
  drawn = acan_philox((acan_u64)a->i[1], sample / 4, (acan_u64)a->i[2]);
  keep = acan_unit_float(drawn.v[sample % 4]) >= a->f[0];
  ACAN_INDEPENDENT
  for (c = ACAN_ROW_THREAD; c < a->m[0].cols; c += ACAN_ROW_THREADS) {
    const float x = acan_load(&a->m[1], r, c) * a->f[1];
    acan_store(&a->m[0], r, c, keep ? x : 0.0f);
  }
}

#endif /* ACAN_KERNELS_DROPOUT_H */
