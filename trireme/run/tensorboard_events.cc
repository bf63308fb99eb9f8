// See tensorboard_events.h.
#include "trireme/run/tensorboard_events.h"

#include <bit>
#include <cstring>
#include <span>

#include "trireme/base/crc32c.h"

namespace trireme::tensorboard {
namespace {

// As the frames have it: turned and shifted, so that the CRC of data that holds CRCs is no special case.
uint32_t masked_crc(std::string_view data) {
  return std::rotr(crc32c(std::as_bytes(std::span(data))), 15) + 0xa282ead8u;
}

template <typename Number>
std::string little_endian(Number value) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// A message of protocol buffers: fields by number, in the order in which they are added.
class Message {
 public:
  Message& number(int field, uint64_t value) {
    tag(field, 0);
    varint(value);
    return *this;
  }
  Message& real(int field, double value) {
    tag(field, 1);
    bytes_ += little_endian(value);
    return *this;
  }
  Message& small_real(int field, float value) {
    tag(field, 5);
    bytes_ += little_endian(value);
    return *this;
  }
  Message& bytes(int field, std::string_view value) {
    tag(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return bytes(field, value.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void tag(int field, int type) { varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(type)); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

std::string framed(const Message& event) {
  const std::string size = little_endian<uint64_t>(event.bytes().size());
  return size + little_endian(masked_crc(size)) + event.bytes() + little_endian(masked_crc(event.bytes()));
}

Message event_at(double time, int64_t step) {
  Message event;
  event.real(1, time);
  if (step > 0) event.number(2, static_cast<uint64_t>(step));
  return event;
}

Message plugin(std::string_view name, const Message& content = {}) {
  Message data;
  data.bytes(1, name);
  if (!content.bytes().empty()) data.message(2, content);
  return Message().message(1, data);
}

std::string hparams_record(double time, std::string_view tag, const Message& content) {
  const Message value = Message().bytes(1, tag).message(9, plugin("hparams", content));
  return framed(event_at(time, 0).message(5, Message().message(1, value)));
}

// Its place in the variant, as DataType names it: a number, a truth value, a text.
uint64_t type_of(const SettingValue& value) {
  return std::array{3, 2, 1}[value.index()];
}

Message value_of(const SettingValue& setting) {
  Message value;
  if (const auto* real = std::get_if<double>(&setting)) value.real(2, *real);
  if (const auto* text = std::get_if<std::string>(&setting)) value.bytes(3, *text);
  if (const auto* truth = std::get_if<bool>(&setting)) value.number(4, *truth ? 1 : 0);
  return value;
}

}  // namespace

std::string version_record(double time) {
  return framed(event_at(time, 0).bytes(3, "brain.Event:2"));
}

std::string restart_record(double time, int64_t step) {
  return framed(event_at(time, step).message(7, Message().number(1, 1)));
}

std::string scalars_record(double time, int64_t step, const std::vector<Scalar>& scalars) {
  Message summary;
  for (const Scalar& scalar : scalars)
    summary.message(1, Message().bytes(1, scalar.tag).small_real(2, static_cast<float>(scalar.value)));
  return framed(event_at(time, step).message(5, summary));
}

std::string text_record(double time, int64_t step, std::string_view tag, std::string_view text) {
  const Message one_element = Message().message(2, Message().number(1, 1));
  const Message tensor = Message().number(1, 7).message(2, one_element).bytes(8, text);
  const Message value = Message().bytes(1, tag).message(8, tensor).message(9, plugin("text"));
  return framed(event_at(time, step).message(5, Message().message(1, value)));
}

std::string settings_record(double time, const Settings& settings,
                            const std::vector<std::string>& result_tags) {
  Message experiment;
  for (const auto& [name, value] : settings)
    experiment.message(4, Message().bytes(1, name).number(4, type_of(value)));
  for (const std::string& tag : result_tags)
    experiment.message(5, Message().message(1, Message().bytes(2, tag)));
  return hparams_record(time, "_hparams_/experiment", Message().message(2, experiment));
}

std::string session_start_record(double time, const Settings& settings) {
  Message session;
  for (const auto& [name, value] : settings)
    session.message(1, Message().bytes(1, name).message(2, value_of(value)));
  session.real(5, time);
  return hparams_record(time, "_hparams_/session_start_info", Message().message(3, session));
}

std::string session_end_record(double time) {
  const Message session = Message().number(1, 1).real(2, time);
  return hparams_record(time, "_hparams_/session_end_info", Message().message(4, session));
}

}  // namespace trireme::tensorboard
