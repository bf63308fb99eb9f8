// Reads, makes and forwards the job's secret; see secret.h.
#include "trireme/comm/wire/secret.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "trireme/base/error.h"
#include "trireme/comm/wire/socket.h"

namespace trireme::comm {
namespace {

constexpr size_t kMaxContentBytes = 4096;
// Marks a key that a launcher forwards. It is not hashed again, so that launcher and ranks have the same key.
constexpr std::string_view kKeyMark = "trireme key ";
constexpr const char* kHowToMake = "make one with: (umask 077; head -c 32 /dev/urandom | base64 > FILE)";

// Up to the limit and one more. Ranks that inherited one descriptor share its position, so files are read
// from the start with pread; a pipe can only be read as it comes.
std::string read_content(int descriptor, const std::string& source) {
  std::string content(kMaxContentBytes + 1, '\0');
  size_t size = 0;
  while (size < content.size()) {
    ssize_t got = pread(descriptor, content.data() + size, content.size() - size, static_cast<off_t>(size));
    if (got < 0 && errno == ESPIPE) got = read(descriptor, content.data() + size, content.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_error("cannot read the job's secret from {}: {}", source, std::strerror(errno));
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  content.resize(size);
  return content;
}

}  // namespace

Secret::Secret() {
  if (sodium_init() < 0) throw_error("libsodium does not start: the system gives no random numbers");
}

Secret::~Secret() {
  sodium_memzero(key_.data(), key_.size());
}

Secret Secret::generate() {
  Secret secret;
  randombytes_buf(secret.key_.data(), secret.key_.size());
  return secret;
}

// Content that is no key of ours becomes one by hashing.
Secret Secret::from_text(std::string content, const std::string& source) {
  if (content.size() > kMaxContentBytes) {
    throw_error("{} holds more than {} bytes; a secret is short: {}", source, kMaxContentBytes, kHowToMake);
  }
  const size_t last = content.find_last_not_of(" \t\r\n");
  const size_t size = last == std::string::npos ? 0 : last + 1;
  if (size < kBytes) {
    throw_error("{} holds {} bytes, and a secret needs at least {}; {}", source, size, kBytes, kHowToMake);
  }
  Secret secret;
  if (content.starts_with(kKeyMark)) {
    size_t decoded = 0;
    sodium_hex2bin(secret.key_.data(), kBytes, content.data() + kKeyMark.size(), size - kKeyMark.size(),
                   nullptr, &decoded, nullptr);
    if (decoded != kBytes) throw_error("{} holds a damaged key of {} bytes, not {}", source, decoded, kBytes);
    sodium_memzero(content.data(), content.size());
    return secret;
  }
  constexpr std::string_view kDomain = "trireme job secret";
  crypto_generichash(secret.key_.data(), secret.key_.size(),
                     reinterpret_cast<const unsigned char*>(content.data()), size,
                     reinterpret_cast<const unsigned char*>(kDomain.data()), kDomain.size());
  sodium_memzero(content.data(), content.size());
  return secret;
}

Secret Secret::from_file(const std::string& path) {
  // Non-blocking, so that a named pipe put there cannot hold the start up.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) throw_error("cannot open the job's secret {}: {}; {}", path, std::strerror(errno), kHowToMake);
  struct stat status {};
  if (fstat(file.get(), &status) != 0) throw_error("cannot examine {}: {}", path, std::strerror(errno));
  if (!S_ISREG(status.st_mode))
    throw_error("the job's secret {} is not a regular file; {}", path, kHowToMake);
  if (status.st_uid != geteuid()) {
    throw_error("the job's secret {} belongs to user {}, and this is user {}; use a file of your own", path,
                status.st_uid, geteuid());
  }
  if ((status.st_mode & 077) != 0) {
    throw_error(
        "the job's secret {} is open to other users (mode {:03o}), so it is none; run chmod 600 {}, "
        "and make a new one if others may have read it",
        path, status.st_mode & 0777, path);
  }
  return from_text(read_content(file.get(), path), path);
}

Secret Secret::from_descriptor(int number) {
  const Descriptor descriptor(number);
  const std::string source = fmt::format("descriptor {}", number);
  return from_text(read_content(number, source), source);
}

std::string Secret::to_text() const {
  std::string text(kKeyMark.size() + 2 * kBytes + 1, '\0');
  kKeyMark.copy(text.data(), kKeyMark.size());
  sodium_bin2hex(text.data() + kKeyMark.size(), 2 * kBytes + 1, key_.data(), key_.size());
  text.pop_back();  // the zero that ends it
  return text;
}

int Secret::to_descriptor() const {
  Descriptor memory(memfd_create("trireme-secret", MFD_ALLOW_SEALING));
  if (!memory) throw_error("cannot make memory for the job's secret: {}", std::strerror(errno));
  std::string text = to_text();
  const ssize_t written = write(memory.get(), text.data(), text.size());
  sodium_memzero(text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size())) {
    throw_error("cannot write the job's secret to memory: {}", std::strerror(errno));
  }
  fcntl(memory.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return memory.release();
}

}  // namespace trireme::comm
