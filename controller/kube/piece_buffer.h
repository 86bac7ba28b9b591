// PieceBuffer: hands over the body of a streamed answer piece by piece, as it comes.
#pragma once

#include <cpprest/astreambuf.h>
#include <pplx/pplxtasks.h>

#include <functional>
#include <string>
#include <utility>

namespace sluice::kube {

// A write-only stream buffer: what the library puts into it goes to `sink`, and the library reads
// the socket again only when the task that sink returned is complete.
class PieceBuffer : public concurrency::streams::details::streambuf_state_manager<uint8_t> {
 public:
  using Sink = std::function<pplx::task<size_t>(std::string)>;
  using Base = concurrency::streams::details::streambuf_state_manager<uint8_t>;

  explicit PieceBuffer(Sink sink) : Base(std::ios_base::out), sink_(std::move(sink)) {}

  bool can_seek() const override { return false; }
  bool has_size() const override { return false; }
  size_t buffer_size(std::ios_base::openmode) const override { return 0; }
  void set_buffer_size(size_t, std::ios_base::openmode) override {}
  size_t in_avail() const override { return 0; }
  pos_type getpos(std::ios_base::openmode) const override { return pos_type(traits::eof()); }
  pos_type seekpos(pos_type, std::ios_base::openmode) override { return pos_type(traits::eof()); }
  pos_type seekoff(off_type, std::ios_base::seekdir, std::ios_base::openmode) override {
    return pos_type(traits::eof());
  }
  bool acquire(uint8_t*& data, size_t& count) override {
    data = nullptr;
    count = 0;
    return false;
  }
  void release(uint8_t*, size_t) override {}

 protected:
  pplx::task<int_type> _putc(uint8_t byte) override {
    return sink_(std::string(1, static_cast<char>(byte))).then([byte](size_t) -> int_type {
      return byte;
    });
  }
  pplx::task<size_t> _putn(const uint8_t* data, size_t count) override {
    return sink_(std::string(reinterpret_cast<const char*>(data), count));
  }
  pplx::task<int_type> _bumpc() override { return pplx::task_from_result<int_type>(traits::eof()); }
  int_type _sbumpc() override { return traits::eof(); }
  pplx::task<int_type> _getc() override { return pplx::task_from_result<int_type>(traits::eof()); }
  int_type _sgetc() override { return traits::eof(); }
  pplx::task<int_type> _nextc() override { return pplx::task_from_result<int_type>(traits::eof()); }
  pplx::task<int_type> _ungetc() override {
    return pplx::task_from_result<int_type>(traits::eof());
  }
  pplx::task<size_t> _getn(uint8_t*, size_t) override { return pplx::task_from_result<size_t>(0); }
  size_t _scopy(uint8_t*, size_t) override { return 0; }
  pplx::task<bool> _sync() override { return pplx::task_from_result(true); }
  uint8_t* _alloc(size_t) override { return nullptr; }
  void _commit(size_t) override {}

 private:
  const Sink sink_;
};

}  // namespace sluice::kube
