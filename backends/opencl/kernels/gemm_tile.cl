/* Exact products on GPUs: gemm_tile.h with the sizes that the build options define. */
__kernel __attribute__((reqd_work_group_size(ACAN_TILE_THREADS, 1, 1))) void acan_gemm(
    const __global float* a, acan_i64 a_offset, acan_i64 a_row, acan_i64 a_k,
    const __global float* b, acan_i64 b_offset, acan_i64 b_row, acan_i64 b_k, __global float* c,
    acan_i64 c_offset, acan_i64 c_stride, acan_i64 m, acan_i64 n, acan_i64 k, acan_i64 block) {
  __local float tile_a[ACAN_TILE_A_WORDS];
  __local float tile_b[ACAN_TILE_B_WORDS];
  acan_operand left;
  acan_operand right;
  left.data = a + a_offset;
  left.row_stride = a_row;
  left.k_stride = a_k;
  left.rows = m;
  right.data = b + b_offset;
  right.row_stride = b_row;
  right.k_stride = b_k;
  right.rows = n;
  acan_gemm_tile(&left, &right, c + c_offset, c_stride, k, block, get_group_id(1),
                 get_group_id(0), (int)get_local_id(0), tile_a, tile_b);
}
