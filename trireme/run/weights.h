// Weights that a run starts from (train.init_from): those of a checkpoint of ours, or of a Hugging Face
// folder with config.json and model.safetensors, or model.safetensors.index.json with the files that it
// names, in f32, bf16 or f16. Whatever plan wrote them, each rank reads its parts and nothing else.
#pragma once

#include <span>
#include <string>

#include "trireme/checkpoint/checkpoint.h"
#include "trireme/models/model.h"

namespace trireme {

// Fills `parts`, all the weights and buffers of a model that this rank has, from `path`: a run's folder (its
// newest checkpoint), a checkpoint's folder, or a Hugging Face folder. Returns a description of the source,
// and what else is to be said, for the log. Throws an Error, on all peers and before anything is read, that
// names the settings that differ with both values, the tensors that are missing or too many, and the shapes
// that differ. Tensors whose names fit one of the patterns `fresh` (train.init_fresh) are passed over, so
// that they keep the values they have: those of another head, say.
std::string read_weights(const std::string& path, const Model& model, std::span<const PartView> parts,
                         const CheckpointPeers& peers = {}, std::span<const std::string> fresh = {});

// The whole path of weights; of a run's folder, that of its newest checkpoint, which stays the same when that
// run goes on. "" stays "".
std::string pinned_weights(const std::string& path);

// Adds the tensors of `path`, which is as for read_weights(), to those of a checkpoint that leaves them out:
// that of a run with adapters. `model` is the run's; its vocabulary need not be known.
void add_base_weights(TensorFiles& own, const std::string& path, const Model& model,
                      const CheckpointPeers& peers = {});

}  // namespace trireme
