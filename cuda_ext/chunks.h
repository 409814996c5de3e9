// What all rows come to in one number: rows ascending in chunks of 32, then what the chunks come to, ascending.
#pragma once
#include "hd.h"

namespace fox {
constexpr int64_t row_chunk = 32;

// `Of` has its number of `rows`; `part(begin, end)` goes through the rows of a chunk, `add` joins two parts in their
// order, `finish` writes what follows from all.
template <class Of> FOX_HD typename Of::Part chunk_of(const Of& of, int64_t begin) {
  return of.part(begin, begin + row_chunk < of.rows ? begin + row_chunk : of.rows);
}
template <class Of> FOX_HD void in_chunks(const Of& of) {
  typename Of::Part total{};
  for (int64_t begin = 0; begin < of.rows; begin += row_chunk) total = Of::add(total, chunk_of(of, begin));
  of.finish(total);
}
}  // namespace fox
