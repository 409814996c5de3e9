// The second net behind foxflow/ops: what a kernel needs to be memory-safe. Words for users are in Python.
#pragma once
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

namespace fox {
using torch::headeronly::ScalarType;
using torch::stable::Tensor;

#define FOX_CHECK(condition, ...) STD_TORCH_CHECK(condition, __VA_ARGS__)

inline void check_shape(const Tensor& x, const char* name, std::initializer_list<int64_t> shape) {
  FOX_CHECK(x.is_contiguous(), name, " must be contiguous");
  FOX_CHECK(x.dim() == static_cast<int64_t>(shape.size()), name, " must be ", shape.size(), "-D, got ", x.dim(), "-D");
  int64_t axis = 0;
  for (int64_t size : shape) {
    FOX_CHECK(x.size(axis) == size, name, " must have size ", size, " on axis ", axis, ", got ", x.size(axis));
    ++axis;
  }
}

template <class T> struct dtype_of;
template <> struct dtype_of<float> { static constexpr ScalarType value = ScalarType::Float; };
template <> struct dtype_of<double> { static constexpr ScalarType value = ScalarType::Double; };
template <> struct dtype_of<int32_t> { static constexpr ScalarType value = ScalarType::Int; };
template <> struct dtype_of<int64_t> { static constexpr ScalarType value = ScalarType::Long; };
template <> struct dtype_of<uint8_t> { static constexpr ScalarType value = ScalarType::Byte; };
template <> struct dtype_of<uint32_t> { static constexpr ScalarType value = ScalarType::UInt32; };

template <class T> int32_t dtype_code() {
  constexpr ScalarType dtype = dtype_of<T>::value;
  if constexpr (dtype == ScalarType::Float) return aoti_torch_dtype_float32();
  if constexpr (dtype == ScalarType::Double) return aoti_torch_dtype_float64();
  if constexpr (dtype == ScalarType::Int) return aoti_torch_dtype_int32();
  if constexpr (dtype == ScalarType::Long) return aoti_torch_dtype_int64();
  if constexpr (dtype == ScalarType::Byte) return aoti_torch_dtype_uint8();
  return aoti_torch_dtype_uint32();
}

// Read pointer of a tensor whose dtype and shape were checked.
template <class T> const T* in(const Tensor& x, const char* name, std::initializer_list<int64_t> shape) {
  FOX_CHECK(x.scalar_type() == dtype_of<T>::value, name, " has another dtype than this kernel reads");
  check_shape(x, name, shape);
  return static_cast<const T*>(x.data_ptr());
}

// Write pointer of a tensor whose dtype and shape were checked.
template <class T> T* inout(Tensor& x, const char* name, std::initializer_list<int64_t> shape) {
  return const_cast<T*>(in<T>(x, name, shape));
}

// Pointer to a fresh tensor's elements.
template <class T> T* out(Tensor& x) { return static_cast<T*>(x.data_ptr()); }

// A fresh uninitialised tensor on the device of `like`; every kernel writes every element of it.
// Asked of the C interface at once: the dispatcher's look-up by name takes longer than many a small kernel.
template <class T> Tensor make(const Tensor& like, std::initializer_list<int64_t> shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;) {
    int64_t size = shape.begin()[axis];
    strides[axis - 1] = strides[axis] * (size > 0 ? size : 1);
  }
  int32_t device = 0;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(like.get(), &device));
  AtenTensorHandle handle = nullptr;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(static_cast<int64_t>(shape.size()), shape.begin(),
                                                         strides.data(), dtype_code<T>(), device,
                                                         like.get_device_index(), &handle));
  return Tensor(handle);
}

inline bool is_double(const Tensor& x) { return x.scalar_type() == ScalarType::Double; }
}  // namespace fox
