// See site.h.
#include "trireme/dashboard/site.h"

#include <algorithm>
#include <chrono>

#include "trireme/base/error.h"
#include "trireme/dashboard/answers.h"
#include "trireme/dashboard/page_files.h"

namespace trireme::dashboard {
namespace {

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Answer json_answer(std::string body) {
  return {.type = "application/json", .body = std::move(body), .headers = {{"Cache-Control", "no-store"}}};
}

Answer file_answer(const PageFile& file, const Request& request) {
  Answer answer{.type = file.type,
                .headers = {{"ETag", file.tag}, {"Cache-Control", "no-cache"}, {"Vary", "Accept-Encoding"}}};
  if (request.header("if-none-match") == file.tag) {
    answer.status = 304;
  } else if (request.header("accept-encoding").find("gzip") != std::string_view::npos) {
    answer.body = file.packed;
    answer.headers.emplace_back("Content-Encoding", "gzip");
  } else {
    answer.body = file.text;
  }
  return answer;
}

// Nothing but our own files may run, be shown or be asked for, and no other page may frame or read this one.
void add_common_headers(Answer& answer) {
  for (
      const auto& [name, value] : std::initializer_list<std::pair<const char*, const char*>>{
          {"Content-Security-Policy",
           "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
           "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
          {"X-Content-Type-Options", "nosniff"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Resource-Policy", "same-origin"},
          {"Cross-Origin-Opener-Policy", "same-origin-allow-popups"}})
    answer.headers.emplace_back(name, value);
  const auto caches = [](const auto& header) { return header.first == "Cache-Control"; };
  if (std::ranges::none_of(answer.headers, caches)) answer.headers.emplace_back("Cache-Control", "no-store");
}

}  // namespace

Answer Site::route(const Request& request) {
  if (const PageFile* file = find_page_file(request.path)) return file_answer(*file, request);
  const std::scoped_lock lock(mutex_);
  runs_.look(seconds_since_1970());
  if (request.path == "/")
    return {.type = "text/html; charset=utf-8", .body = summary_page(runs_, page_frame())};
  if (request.path == "/api/runs") return json_answer(runs_answer(runs_, request));
  if (request.path == "/api/run") return json_answer(run_answer(runs_, request));
  if (request.path == "/api/series") return json_answer(series_answer(runs_, request));
  if (request.path == "/api/ranks") return json_answer(ranks_answer(runs_, request));
  if (request.path == "/api/timeline") return json_answer(timeline_answer(runs_, request));
  if (request.path == "/metrics")
    return {.type = "text/plain; version=0.0.4; charset=utf-8", .body = prometheus_answer(runs_)};
  return {.status = 404, .body = "There is no such page.\n"};
}

Answer Site::answer(const Request& request, int port) {
  Answer answer;
  if (std::optional<Answer> stopped = guard_.stops(request, port)) {
    answer = std::move(*stopped);
  } else {
    try {
      answer = route(request);
    } catch (const Error& error) {
      answer = {.status = 400, .body = std::string(error.what()) + "\n"};
    }
  }
  add_common_headers(answer);
  return answer;
}

size_t Site::count_runs() {
  const std::scoped_lock lock(mutex_);
  runs_.look(seconds_since_1970());
  size_t there = 0;
  for (size_t i = 0; i < runs_.size(); ++i) there += runs_[i].gone ? 0 : 1;
  return there;
}

}  // namespace trireme::dashboard
