// The BPE tokenizer over a vocabulary that is already in memory; open_bpe_tokenizer (tokenizer.h) reads
// one from files.
#pragma once

#include <memory>
#include <string>

#include "trireme/data/bpe_vocabulary.h"
#include "trireme/data/tokenizer.h"

namespace trireme {

std::shared_ptr<const Tokenizer> make_bpe_tokenizer(BpeVocabulary vocabulary, std::string name);

}  // namespace trireme
