// The files of the page, as parts of the program.
#pragma once

#include <string>
#include <string_view>

namespace trireme::dashboard {

struct PageFile {
  std::string type, text;
  std::string packed;  // by gzip
  std::string tag;     // of its content, for If-None-Match
};
// By its address ("/page.css"); null where there is none.
const PageFile* find_page_file(std::string_view path);
// The frame of the page, in which `{{summary}}` stands for what is seen without JavaScript.
std::string_view page_frame();

}  // namespace trireme::dashboard
