// The challenge-response; see handshake.h for the frames and what they prove.
#include "trireme/comm/wire/handshake.h"

#include <sodium.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "trireme/base/error.h"

namespace trireme::comm {
namespace {

using namespace handshake;

static_assert(std::endian::native == std::endian::little, "frames are sent as they lie in memory");

// The last letter is the version of everything that is said on a connection, messages included.
constexpr std::array<char, 8> kMagic = {'T', 'R', 'I', 'R', 'E', 'M', 'E', '2'};

std::array<uint8_t, 16> job_hash(const std::string& job) {
  std::array<uint8_t, 16> hash;
  crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const unsigned char*>(job.data()), job.size(),
                     nullptr, 0);
  return hash;
}

class MacBuilder {
 public:
  MacBuilder(const Secret& secret, std::string_view role) {
    crypto_auth_hmacsha512256_init(&state_, secret.key().data(), secret.key().size());
    add(role.data(), role.size());
  }
  template <typename Frame>
  MacBuilder& operator<<(const Frame& frame) {
    add(&frame, sizeof frame);
    return *this;
  }
  Mac finish() {
    Mac mac;
    crypto_auth_hmacsha512256_final(&state_, mac.data());
    return mac;
  }

 private:
  void add(const void* data, size_t bytes) {
    crypto_auth_hmacsha512256_update(&state_, static_cast<const unsigned char*>(data), bytes);
  }
  crypto_auth_hmacsha512256_state state_;
};

bool same(const Mac& a, const Mac& b) {
  return sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

std::string to_text(Verdict verdict, uint32_t detail) {
  switch (verdict) {
    case Verdict::welcome:
      return "welcome";
    case Verdict::unproven:
      return "the other side does not know this job's secret: another job or program, or the ranks were "
             "given different secrets";
    case Verdict::other_job:
      return "another job with the same secret is there; give each job its own name or address";
    case Verdict::other_generation:
      return fmt::format("the job is at generation {} of its membership", detail);
    case Verdict::other_ranks:
      return fmt::format("the other side has a job of {} ranks; start all ranks with the same number",
                         detail);
    case Verdict::other_rank:
      return fmt::format("rank {} answered, and another was expected", detail);
    case Verdict::taken:
      return "another process has come as this rank; give each process its own";
  }
  return "a verdict that this version does not know";
}

Handshake::Handshake(const Secret& secret, const Membership& self, Purpose purpose)
    : secret_(secret), self_(self), purpose_(purpose) {
  static_assert(sizeof(Challenge) <= kMaxFrameBytes && sizeof(Proof) <= kMaxFrameBytes &&
                sizeof(Answer) <= kMaxFrameBytes);
}

void Handshake::receive(std::span<const std::byte> bytes) {
  TRIREME_CHECK(bytes.size() <= wanted());
  std::copy(bytes.begin(), bytes.end(), incoming_.begin() + received_);
  received_ += bytes.size();
  if (received_ == wanted_ && wanted_ > 0) frame_received();
}

template <typename Frame>
void Handshake::send_frame(const Frame& frame) {
  std::memcpy(outgoing_.data(), &frame, sizeof frame);
  to_send_ = sizeof frame;
  sent_ = 0;
}

template <typename Frame>
Frame Handshake::frame() const {
  Frame frame;
  std::memcpy(&frame, incoming_.data(), sizeof frame);
  return frame;
}

void Handshake::expect(size_t bytes) {
  wanted_ = bytes;
  received_ = 0;
}

void Handshake::finish(Verdict verdict, uint32_t detail) {
  expect(0);
  state_ = verdict == Verdict::welcome ? State::done : State::failed;
  verdict_ = verdict;
  detail_ = detail;
}

Mac Handshake::mac_of_claim() const {
  return (MacBuilder(secret_, "connector claims") << challenge_ << claim_).finish();
}

Mac Handshake::mac_of_answer(const Answer& answer) const {
  return (MacBuilder(secret_, "acceptor answers") << challenge_ << claim_ << answer.verdict << answer.detail)
      .finish();
}

AcceptorHandshake::AcceptorHandshake(const Secret& secret, const Membership& self, Purpose purpose,
                                     Judge judge)
    : Handshake(secret, self, purpose), judge_(std::move(judge)) {
  challenge_.magic = kMagic;
  randombytes_buf(challenge_.nonce.data(), challenge_.nonce.size());
  send_frame(challenge_);
  expect(sizeof(Proof));
}

void AcceptorHandshake::frame_received() {
  const auto proof = frame<Proof>();
  claim_ = proof.claim;
  const auto generation = self_.generation;
  const auto ranks = static_cast<uint32_t>(self_.ranks), rank = static_cast<uint32_t>(self_.rank);
  if (claim_.magic != kMagic || !same(proof.mac, mac_of_claim())) return answer(Verdict::unproven, 0);
  // From here on it is one of us, perhaps mistaken.
  peer_rank_ = static_cast<int>(std::min(claim_.rank, Membership::kMaxRanks));
  peer_ranks_ = static_cast<int>(std::min(claim_.ranks, Membership::kMaxRanks));
  if (claim_.job != job_hash(self_.job) || claim_.purpose != static_cast<uint32_t>(purpose_)) {
    return answer(Verdict::other_job, 0);
  }
  if (claim_.generation != generation) return answer(Verdict::other_generation, generation);
  if (claim_.ranks != ranks || claim_.rank >= ranks) return answer(Verdict::other_ranks, ranks);
  if (claim_.to_rank != rank) return answer(Verdict::other_rank, rank);
  answer(judge_(peer_rank_), rank);
}

void AcceptorHandshake::answer(Verdict verdict, uint32_t detail) {
  Answer answer{kMagic, static_cast<uint32_t>(verdict), detail, {}};
  // To a stranger the answer carries no MAC: nobody gets one made for the asking.
  if (verdict != Verdict::unproven) answer.mac = mac_of_answer(answer);
  send_frame(answer);
  finish(verdict, detail);
}

ConnectorHandshake::ConnectorHandshake(const Secret& secret, const Membership& self, Purpose purpose,
                                       int to_rank)
    : Handshake(secret, self, purpose) {
  claim_ = {.magic = kMagic,
            .nonce = {},
            .job = job_hash(self.job),
            .generation = self.generation,
            .rank = static_cast<uint32_t>(self.rank),
            .ranks = static_cast<uint32_t>(self.ranks),
            .to_rank = static_cast<uint32_t>(to_rank),
            .purpose = static_cast<uint32_t>(purpose),
            .reserved = 0};
  randombytes_buf(claim_.nonce.data(), claim_.nonce.size());
  expect(sizeof(Challenge));
}

void ConnectorHandshake::frame_received() {
  if (!challenged_) {
    challenged_ = true;
    challenge_ = frame<Challenge>();
    if (challenge_.magic != kMagic) return finish(Verdict::unproven, 0);
    send_frame(Proof{claim_, mac_of_claim()});
    return expect(sizeof(Answer));
  }
  const auto answer = frame<Answer>();
  if (answer.magic != kMagic || !same(answer.mac, mac_of_answer(answer))) return finish(Verdict::unproven, 0);
  finish(static_cast<Verdict>(answer.verdict), answer.detail);
}

}  // namespace trireme::comm
