// Contributors: names of the handlers whose results a run contains. Each snapshot has them, and a
// key may have any number of clients, one after the other, so their number is limited.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>

namespace acan {

class Contributors {
 public:
  // If more clients of a key contribute, one name stands for all of them.
  static constexpr std::size_t kMostOfKey = 1000;

  // The name that stands for all clients that have this client's key; or, if it has none, for all
  // clients without a key. A key ("name/") is another name, with its own meaning.
  static std::string AllClientsOf(const std::string& client);

  // Adds a client id, a key, or a name that stands for all clients of one.
  void Add(const std::string& name);
  void AddAll(const std::set<std::string>& names);

  const std::set<std::string>& names() const { return names_; }

 private:
  std::set<std::string> names_;
  std::map<std::string, std::size_t> clients_;  // the number of client ids in names_, by key
};

}  // namespace acan
