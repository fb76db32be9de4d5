/* The local memory of a group of work-items in OpenCL C, whose functions cannot declare any. Words
 * of 4 bytes: where each array of the group begins, and how many words there are in all. Both the
 * kernels and the host, which passes the memory, take them from here. `threads` is the number of
 * work-items of the group.
 *
 *   a row     | total | pad | lanes [threads] | sums of leaves [threads / 16]
 *             |       |     | ranks and columns, 2 words each [threads] | values [threads]
 *             |       |     | terms [threads][17] | sums of chains [threads]
 *   columns   | sums of places [threads] |
 *
 * The arrays of a row that begin at the same word are not used at the same time: there is a barrier
 * between the last use of one and the first use of another. */
#ifndef ACAN_KERNELS_SHARED_WORDS_H
#define ACAN_KERNELS_SHARED_WORDS_H

#define ACAN_AT_TOTAL(threads) 0
#define ACAN_AT_LANES(threads) 2
#define ACAN_AT_LEAVES(threads) (2 + (threads))
#define ACAN_AT_RANKS(threads) 2
#define ACAN_AT_COLUMNS(threads) (2 + 2 * (threads))
#define ACAN_AT_VALUES(threads) (2 + 4 * (threads))
#define ACAN_AT_TERMS(threads) 2
#define ACAN_AT_CHAINS(threads) (2 + 17 * (threads))
#define ACAN_AT_PLACES(threads) 0

#define ACAN_ROW_WORDS(threads) (2 + 5 * (threads))
#define ACAN_CHAIN_WORDS(threads) (2 + 18 * (threads))
#define ACAN_PLACE_WORDS(threads) (threads)

#endif /* ACAN_KERNELS_SHARED_WORDS_H */
