// The job's secret: what every rank of a job knows and nobody else. It comes from a file, from an inherited
// descriptor or from the environment, which other users of the host cannot read; never from the command line, which
// they can.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace trireme::comm {

class Secret {
 public:
  static constexpr size_t kBytes = 32;

  // A new one, from the system's random numbers.
  static Secret generate();
  // A regular file of this user's that others cannot read, with at least 32 bytes (spaces and line ends at
  // the end do not count). What is in it may be anything; 44 characters of base64, say. Throws Error.
  static Secret from_file(const std::string& path);
  // A descriptor that to_descriptor() made, or a pipe or file with the content that from_file() takes. Closes
  // it.
  static Secret from_descriptor(int descriptor);

  // One line to hand on over a channel that nobody else reads, and back. Raw bytes would not do: they could
  // end in what a reader takes for a line end. Throws Error.
  std::string to_text() const;
  static Secret from_text(std::string text, const std::string& source);

  // For a launcher: a descriptor (memory, no name) for children to inherit; any number of them can read it.
  // It stays open across exec; the caller closes its own when the children are started.
  int to_descriptor() const;

  std::span<const uint8_t, kBytes> key() const { return key_; }

  ~Secret();  // wipes it
  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;

 private:
  Secret();
  std::array<uint8_t, kBytes> key_{};
};

}  // namespace trireme::comm
