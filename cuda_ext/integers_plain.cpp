// Tables of whole numbers as text, for readers of market files: plain C for ctypes, without torch.
#include <cstdint>

namespace {
constexpr int most_digits = 18;  // so that no number leaves 64 bits

bool digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }

// Reads one number up to its separator; null where the text is anything else or ends before.
const char* number(const char* at, const char* end, int64_t* out) {
  const bool negative = at < end && *at == '-';
  at += negative;
  const char* first = at;
  int64_t value = 0;
  for (; at < end && digit(*at); ++at) value = value * 10 + (*at - '0');
  if (at == first || at - first > most_digits) return nullptr;
  *out = negative ? -value : value;
  return at;
}
}  // namespace

// Parses at most `rows` lines of `columns` numbers, a comma between them, into out[column * rows + row]. Stops before
// the first line of any other form. Returns the lines parsed; *used = their bytes.
extern "C" __attribute__((visibility("default"))) int64_t fox_parse_integers(const char* text, int64_t size,
                                                                             int64_t columns, int64_t rows,
                                                                             int64_t* out, int64_t* used) {
  const char *at = text, *end = text + size;
  *used = 0;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      at = number(at, end, out + column * rows + row);
      if (!at || at == end) return row;
      if (column + 1 < columns && *at++ != ',') return row;
    }
    if (*at == '\r' && end - at > 1) ++at;
    if (*at++ != '\n') return row;
    *used = at - text;
  }
  return rows;
}
