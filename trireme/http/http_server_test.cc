// The server over real sockets: bodies and their limit, answers in parts, many at a time, and the end.
#include "trireme/http/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace trireme::http {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// −1 where nobody listens.
int connect_to(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return socket;
  ::close(socket);
  return -1;
}

void send_all(int socket, const std::string& text) {
  ASSERT_EQ(::send(socket, text.data(), text.size(), MSG_NOSIGNAL), std::ssize(text));
}

std::string rest_of(int socket) {
  std::string text;
  char buffer[4096];
  for (ssize_t count = 0; (count = ::recv(socket, buffer, sizeof buffer, 0)) > 0;)
    text.append(buffer, static_cast<size_t>(count));
  ::close(socket);
  return text;
}

std::string posted(int port, const std::string& body) {
  const int socket = connect_to(port);
  EXPECT_GE(socket, 0);
  send_all(socket,
           fmt::format(
               "POST /x?a=b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{}",
               body.size(), body));
  return rest_of(socket);
}

const ServerOptions kEach{.body_bytes = 100, .threads = ServerOptions::Threads::kEach, .answer_seconds = 30};

TEST(HttpServer, TakesBodiesUpToItsLimit) {
  const HttpServer server(kEach, [](const Request& request, int) {
    return Answer{.body = fmt::format("{} {} {} {} {}", request.method, request.path, request.argument("a"),
                                      request.has == Request::Body::kWhole ? "whole" : "too large",
                                      request.body)};
  });
  EXPECT_THAT(posted(server.port(), "hello"), EndsWith("POST /x b whole hello"));
  EXPECT_THAT(posted(server.port(), std::string(100, 'a')), EndsWith("whole " + std::string(100, 'a')));
  EXPECT_THAT(posted(server.port(), std::string(101, 'a')), EndsWith("too large "));
  EXPECT_THAT(posted(server.port(), std::string(100'000, 'a')), EndsWith("too large "));
}

TEST(HttpServer, SendsPartsAsTheyCome) {
  std::atomic<int> asked = 0, gone = 0;
  const HttpServer server(kEach, [&](const Request&, int) {
    // Destroyed when all is sent.
    const std::shared_ptr<void> end(nullptr, [&](void*) { ++gone; });
    return Answer{.parts = [&asked, end, left = 3]() mutable -> std::optional<std::string> {
      ++asked;
      if (left-- == 0) return {};
      return std::string(3000, static_cast<char>('X' + left));
    }};
  });
  const std::string answer = posted(server.port(), "");
  EXPECT_THAT(answer, HasSubstr("Transfer-Encoding: chunked"));
  for (const char letter : {'X', 'Y', 'Z'}) EXPECT_EQ(std::ranges::count(answer, letter), 3000);
  EXPECT_EQ(asked, 4);
  EXPECT_EQ(gone, 1);
}

TEST(HttpServer, AnswersSeveralAtATimeAndThenCloses) {
  constexpr int kClients = 20;
  std::atomic<int> inside = 0;
  HttpServer server(kEach, [&](const Request&, int) {
    ++inside;
    while (inside < kClients) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return Answer{.body = "done"};
  });
  std::vector<std::string> answers(kClients);
  std::vector<std::thread> clients;
  for (std::string& answer : answers) clients.emplace_back([&] { answer = posted(server.port(), "x"); });
  while (inside == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(server.wait_until_idle(30));
  for (std::thread& client : clients) client.join();
  for (const std::string& answer : answers)
    EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 200"), EndsWith("done")));
  server.close_door();
  EXPECT_EQ(connect_to(server.port()), -1);
}

TEST(HttpServer, AnExceptionIsAnAnswer) {
  const HttpServer server({}, [](const Request&, int) -> Answer { throw std::runtime_error("broken"); });
  EXPECT_THAT(posted(server.port(), ""), AllOf(StartsWith("HTTP/1.1 500"), EndsWith("broken\n")));
}

}  // namespace
}  // namespace trireme::http
