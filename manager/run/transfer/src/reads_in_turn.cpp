#include "acan/manager/reads_in_turn.h"

namespace acan {

void ReadsInTurn::Add(tuplespace::Read read, Then then) {
  turn_->waiting.emplace_back(std::move(read), std::move(then));
  Fill(turn_);
}

void ReadsInTurn::Fill(const std::shared_ptr<Turn>& turn) {
  while (turn->open < most_ && !turn->waiting.empty()) {
    auto [read, then] = std::move(turn->waiting.front());
    turn->waiting.pop_front();
    ++turn->open;
    submit_(std::move(read), [this, turn, then = std::move(then)](tuplespace::Found&& found) {
      --turn->open;
      if (turn == turn_) Fill(turn);
      then(std::move(found));
    });
  }
}

}  // namespace acan
