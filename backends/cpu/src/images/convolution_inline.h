// Convolutions without an unfolded image. Lines of an image, with the zeros around them, are copied
// once into the scratch, where the taps of a window are at constant distances. Included once per
// instruction set, inside that unit's own anonymous namespace, after image_tile_inline.h.
//
//   lines    [line][pixel][channels]
//   weights  panels of some columns: [k][vectors]; of an input gradient [tap][output][vectors]

constexpr int64_t kImageLineFloats = 48 * 1024;   // of packed lines, which stay in L2
constexpr int64_t kMaxPanelFloats = 192 * 1024;   // of a panel, which stays in L2
constexpr int64_t kMaxTapsOfGradient = kMaxRuns;  // of a window

// Lines first .. last - 1 of an image [height, width, channels], with `left` zero pixels before and
// `right` after each; lines outside the image are zeros.
struct Lines {
  const View* x;
  int64_t image;  // its first row of x
  int64_t height;
  int64_t width;
  int64_t left;
  int64_t right;

  int64_t Floats() const { return (width + left + right) * x->cols; }
};

ACAN_INLINE void Clear(float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = 0.0f;
}

void PackLines(const Lines& lines, int64_t first, int64_t last, float* to) {
  const int64_t channels = lines.x->cols;
  for (int64_t y = first; y < last; ++y, to += lines.Floats()) {
    if (y < 0 || y >= lines.height) {
      Clear(to, lines.Floats());
      continue;
    }
    const float* from = lines.x->data + (lines.image + y * lines.width) * lines.x->stride;
    float* pixel = to + lines.left * channels;
    Clear(to, lines.left * channels);
    if (lines.x->stride == channels) {
      Copy(pixel, from, lines.width * channels);
    } else {
      for (int64_t i = 0; i < lines.width; ++i) {
        Copy(pixel + i * channels, from + i * lines.x->stride, channels);
      }
    }
    Clear(pixel + lines.width * channels, lines.right * channels);
  }
}

// The leaves of `block` over all of k. They are cut at the ends of stretches of `stretch` elements,
// which are contiguous in the pixels: stretch i begins at i * step. Returns 0 if there are too many
// runs.
int64_t MakeRuns(int64_t k, int64_t block, int64_t stretch, int64_t step, Run* runs) {
  int64_t count = 0;
  for (int64_t at = 0; at < k; ++count) {
    if (count == kMaxRuns) return 0;
    const int64_t leaf_end = Min(k, (at / block + 1) * block);
    const int64_t end = Min(leaf_end, (at / stretch + 1) * stretch);
    runs[count] = {at / stretch * step + at % stretch, end - at, end == leaf_end};
    at = end;
  }
  return count;
}

int64_t PanelsWidth(int64_t cols) {
  return RoundUp(cols, Vec::kWidth);
}

// ---- forward ----

struct ForwardConvolution {
  const ConvolutionProblem& g;
  acan_window w;
  const float* weights;
  float* packed;
  int64_t line_floats;
  int64_t band_lines;  // of the result, at most
  Run runs[kMaxRuns];
  int64_t run_count;
};

// weight[n, k] as panels of [k][vectors].
void PackForwardWeights(const ConvolutionProblem& g, float* to) {
  const View& weight = g.weight;
  for (int64_t j = 0, cols = 0; j < weight.rows; j += cols) {
    const int64_t width = PanelVecs(weight.rows - j) * Vec::kWidth;
    cols = Min(width, weight.rows - j);
    if (cols < width) Clear(to, weight.cols * width);
    Transpose(weight.data + j * weight.stride, weight.stride, to, width, cols, weight.cols);
    to += weight.cols * width;
  }
}

void SumForwardLine(const ForwardConvolution& f, const float* packed, int64_t row) {
  const View& c = f.g.c;
  const int64_t pitch = f.w.stride_x * f.g.x.cols;
  const float* q = f.weights;
  for (int64_t j = 0, cols = 0; j < c.cols; j += cols) {
    const int vecs = PanelVecs(c.cols - j);
    cols = Min(vecs * Vec::kWidth, c.cols - j);
    for (int64_t x = 0, pixels = 0; x < f.w.out_width; x += pixels) {
      pixels = NextTilePixels(f.w.out_width - x, MostTilePixels(vecs));
      const Result result{c.data + (row + x) * c.stride + j, c.stride, 1, (int)cols};
      kImageTiles.forward.of[vecs - 1][pixels - 1](
          {packed + x * pitch, pitch, q, f.runs, f.run_count, result});
    }
    q += f.g.weight.cols * vecs * Vec::kWidth;
  }
}

// Returns false, having done nothing, if the scratch is too small or the sums have too many leaves.
bool Convolve(const ConvolutionProblem& g, float* scratch, int64_t floats) {
  const acan_args unfold = KernelArgsOf(g.window);
  ForwardConvolution f{g, acan_window_of(&unfold), scratch, nullptr, 0, 0, {}, 0};
  const acan_window& w = f.w;
  const int64_t k = g.weight.cols, channels = g.x.cols;
  const int64_t weight_floats = RoundUp(k * PanelsWidth(g.weight.rows), kLine);
  f.line_floats = (w.width + 2 * w.padding_x) * channels;
  f.run_count = MakeRuns(k, g.block, w.window_width * channels, f.line_floats, f.runs);
  const int64_t least = w.window_height * f.line_floats;
  const int64_t left = floats - weight_floats;
  const bool wide = k * kPanelVecs * Vec::kWidth > kMaxPanelFloats;
  if (f.run_count == 0 || wide || left < least) return false;
  PackForwardWeights(g, scratch);
  f.packed = scratch + weight_floats;
  f.band_lines = 1;
  if (const int64_t room = Min(left, kImageLineFloats); room > least) {
    f.band_lines += (room - least) / (w.stride_y * f.line_floats);
  }
  for (int64_t line = g.line_begin, lines = 0; line < g.line_end; line += lines) {
    const int64_t image = line / w.out_height, out_y = line % w.out_height;
    lines = Min(f.band_lines, Min(g.line_end - line, w.out_height - out_y));
    const int64_t first = out_y * w.stride_y - w.padding_y;
    PackLines({&g.x, image * w.height * w.width, w.height, w.width, w.padding_x, w.padding_x},
              first, first + (lines - 1) * w.stride_y + w.window_height, f.packed);
    for (int64_t y = 0; y < lines; ++y) {
      SumForwardLine(f, f.packed + y * w.stride_y * f.line_floats, (line + y) * w.out_width);
    }
    if (g.epilogue != nullptr) {
      Launch(g.epilogue->kernel, g.epilogue->args,
             {line * w.out_width, (line + lines) * w.out_width, 0, g.c.cols});
    }
  }
  return true;
}

// ---- input gradient ----

struct BackwardConvolution {
  const ConvolutionProblem& g;
  acan_window w;
  const float* weights;
  float* packed;
  int64_t left;  // zero pixels before a line of dy
  int64_t right;
  int64_t line_floats;
  int64_t band_lines;  // of dx, at most
  Run runs[kMaxRuns];
  int64_t run_count;
};

int64_t FloorDivide(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

// weight[n, taps * channels] as panels of channels: [tap][n][vectors].
void PackBackwardWeights(const ConvolutionProblem& g, int64_t taps, float* to) {
  const View& weight = g.weight;
  const int64_t channels = g.x.cols;
  for (int64_t j = 0, cols = 0; j < channels; j += cols) {
    const int64_t width = PanelVecs(channels - j) * Vec::kWidth;
    cols = Min(width, channels - j);
    for (int64_t tap = 0; tap < taps; ++tap) {
      for (int64_t n = 0; n < weight.rows; ++n, to += width) {
        Copy(to, weight.data + n * weight.stride + tap * channels + j, cols);
        Clear(to + cols, width - cols);
      }
    }
  }
}

// The taps, in ascending order, that have windows over pixels phase, phase + stride_x, .. of line
// y. `q`: the panel of weights.
int64_t FindTaps(const BackwardConvolution& b, int64_t y, int64_t phase, int64_t first_out_y,
                 const float* q, int64_t width, Tap* taps) {
  const acan_window& w = b.w;
  const int64_t outputs = b.g.weight.rows;
  int64_t count = 0;
  for (int64_t ky = 0; ky < w.window_height; ++ky) {
    const int64_t down = y + w.padding_y - ky;
    if (down < 0 || down % w.stride_y != 0 || down / w.stride_y >= w.out_height) continue;
    const int64_t line = down / w.stride_y - first_out_y;
    for (int64_t kx = 0; kx < w.window_width; ++kx) {
      const int64_t out_x = FloorDivide(phase + w.padding_x - kx, w.stride_x);
      if (out_x * w.stride_x != phase + w.padding_x - kx) continue;
      taps[count++] = {line * b.line_floats + (b.left + out_x) * outputs,
                       q + (ky * w.window_width + kx) * outputs * width, -out_x,
                       w.out_width - out_x};
    }
  }
  return count;
}

// Computes line y of dx, the rows from `row` on. The packed lines of dy begin with first_out_y.
void SumBackwardLine(const BackwardConvolution& b, int64_t y, int64_t row, int64_t first_out_y) {
  const View& dx = b.g.x;
  const acan_window& w = b.w;
  const int64_t outputs = b.g.weight.rows;
  Tap taps[kMaxTapsOfGradient];
  const float* q = b.weights;
  for (int64_t j = 0, cols = 0; j < dx.cols; j += cols) {
    const int vecs = PanelVecs(dx.cols - j);
    const int64_t width = vecs * Vec::kWidth;
    cols = Min(width, dx.cols - j);
    for (int64_t phase = 0; phase < Min(w.stride_x, w.width); ++phase) {
      const int64_t count = FindTaps(b, y, phase, first_out_y, q, width, taps);
      const int64_t pixels = (w.width - phase + w.stride_x - 1) / w.stride_x;
      for (int64_t x = 0, size = 0; x < pixels; x += size) {
        size = NextTilePixels(pixels - x, MostTilePixels(vecs));
        const int64_t to = row + phase + x * w.stride_x;
        const Result result{dx.data + to * dx.stride + j, dx.stride * w.stride_x, 1, (int)cols};
        kImageTiles.backward.of[vecs - 1][size - 1](
            {b.packed + x * outputs, outputs, taps, count, b.runs, b.run_count, x, result});
      }
    }
    q += w.window_height * w.window_width * outputs * width;
  }
}

// The same for an input gradient: g.c is dy, g.x is dx.
bool ConvolveBack(const ConvolutionProblem& g, float* scratch, int64_t floats) {
  const acan_args fold = KernelArgsOf(g.window);
  BackwardConvolution b{g, acan_window_of(&fold), scratch, nullptr, 0, 0, 0, 0, {}, 0};
  const acan_window& w = b.w;
  const int64_t taps = w.window_height * w.window_width, outputs = g.weight.rows;
  const int64_t weight_floats = RoundUp(taps * outputs * PanelsWidth(g.x.cols), kLine);
  b.left = (w.window_width + w.stride_x - 1) / w.stride_x;
  b.right = (w.width - 1 + w.padding_x) / w.stride_x + 1 - w.out_width;
  if (b.right < 0) b.right = 0;
  b.line_floats = (w.out_width + b.left + b.right) * outputs;
  b.run_count = MakeRuns(outputs, g.block, outputs, 0, b.runs);
  // The lines of dy that `lines` of dx depend on: (lines - 1 + window_height) / stride_y, rounded
  // up.
  const int64_t left = floats - weight_floats;
  const int64_t least = (w.window_height / w.stride_y + 1) * b.line_floats;
  const bool wide = taps * outputs * kPanelVecs * Vec::kWidth > kMaxPanelFloats;
  if (b.run_count == 0 || taps > kMaxTapsOfGradient || wide || left < least) return false;
  PackBackwardWeights(g, taps, scratch);
  b.packed = scratch + weight_floats;
  b.band_lines = 1;
  if (const int64_t room = Min(left, kImageLineFloats); room > least) {
    b.band_lines += (room - least) / b.line_floats;
  }
  for (int64_t line = g.line_begin, lines = 0; line < g.line_end; line += lines) {
    const int64_t image = line / w.height, y = line % w.height;
    lines = Min(b.band_lines, Min(g.line_end - line, w.height - y));
    const acan_span seen =
        acan_windows_over(y, y + lines, w.stride_y, w.padding_y, w.window_height, w.out_height);
    PackLines(
        {&g.c, image * w.out_height * w.out_width, w.out_height, w.out_width, b.left, b.right},
        seen.begin, seen.end, b.packed);
    for (int64_t i = 0; i < lines; ++i) {
      SumBackwardLine(b, y + i, (line + i) * w.width, seen.begin);
    }
  }
  return true;
}
