// Warnings about data that load, but possibly with another meaning than intended. Each function
// adds a sentence to `warnings` if there is a reason.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "acan/manager/job.h"
#include "acan/manager/sample_set.h"

namespace acan {

// Warns if only one of the two files of inputs has uint8, which alone is scaled. Either file may be
// missing: the training files need not exist after the training.
void WarnOfScaling(const std::string& train, const std::string& other,
                   std::vector<std::string>* warnings);

// Warns if a mean cannot be one of the images in the file `train`: uint8 is scaled to 0..1 before
// the mean is subtracted, but other programs' means are often those of values from 0 to 255.
void WarnOfMean(const std::string& train, const std::vector<double>& mean,
                std::vector<std::string>* warnings);

// Classes of other programs shift the labels of a causal model; acan does not. Warns if the labels
// of `set`, which are in the file `path`, equal its tokens.
void WarnOfLabels(const Job& job, const SampleSet& set, const std::string& path,
                  std::vector<std::string>* warnings);

// Lengths hide tokens from attention, but not their labels from the loss. Warns if labels of `set`,
// which are in the file `path`, are beyond the lengths of their sequences and count. `none` is the
// label that does not count in such a file; unset: every label counts.
void WarnOfPadding(const SampleSet& set, std::optional<std::int64_t> none, const std::string& path,
                   std::vector<std::string>* warnings);

// pandas names columns 0, 1, 2, ... unless they have names. Warns of CSV files that begin with such
// a line, which is read as a sample. Skips empty paths and files that cannot be read.
void WarnOfNumberedColumns(const std::vector<std::string>& paths,
                           std::vector<std::string>* warnings);

}  // namespace acan
