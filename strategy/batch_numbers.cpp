// SPDX-License-Identifier: Apache-2.0
#include "strategy/batch_numbers.h"

#include "plugin/config/fields.h"

namespace zero {
namespace {

using Number = Setting<int64_t>;

bool known(const Number& number) { return number.given() && !number.automatic(); }

std::string product(int64_t micro, int64_t steps, int world_size) {
  return "train_micro_batch_size_per_gpu " + std::to_string(micro) +
         " x gradient_accumulation_steps " + std::to_string(steps) + " x " +
         std::to_string(world_size) + (world_size == 1 ? " rank" : " ranks");
}

// What would make the numbers fit.
std::string remedy(int64_t total, int64_t micro, int64_t steps, int world_size) {
  std::string text = "set train_batch_size to " + std::to_string(micro * steps * world_size);
  if (total % (micro * world_size) == 0) {
    text.append(", gradient_accumulation_steps to ")
        .append(std::to_string(total / (micro * world_size)));
  }
  if (total % (micro * steps) == 0) {
    text.append(", or run ").append(std::to_string(total / (micro * steps))).append(" ranks");
  }
  return text;
}

class BatchNumbers {
 public:
  BatchNumbers(EngineConfig& config, std::vector<std::string>& problems)
      : total_(config.train_batch_size),
        micro_(config.train_micro_batch_size_per_gpu),
        steps_(config.gradient_accumulation_steps),
        problems_(problems) {}

  void nobody_knows() {
    if (known(micro_) || (known(total_) && known(steps_))) return;
    if (!micro_.automatic() && !total_.automatic() && !steps_.automatic()) return;
    if (known(total_) && !micro_.automatic() && !steps_.automatic()) return;
    std::string keys;
    std::string where;
    for (const Number* const number : {&total_, &micro_, &steps_}) {
      if (!number->automatic()) continue;
      if (where.empty()) where = number->provenance().where;
      keys.append(keys.empty() ? "" : ", ").append(number->provenance().flag);
    }
    problems_.push_back(
        problem_line(where, keys,
                     "auto can be filled only where the size of a micro batch is known; write "
                     "train_micro_batch_size_per_gpu, or pass it: StrategyOptions()"
                     ".train_micro_batch_size_per_gpu(n)"));
  }

  void fill(int world_size) {
    const bool from_total = known(total_) && known(micro_) && !known(steps_);
    if (from_total) {
      const int64_t divisor = micro_.peek() * world_size;
      if (divisor == 0 || total_.peek() % divisor != 0) {
        complain(total_.provenance(),
                 "is not a multiple of train_micro_batch_size_per_gpu " +
                     std::to_string(micro_.peek()) + " x " + std::to_string(world_size) +
                     (world_size == 1 ? " rank" : " ranks") + "; change one of them");
        return;
      }
      derive(steps_, total_.peek() / divisor);
    }
    if (steps_.automatic()) derive(steps_, 1);
    if (known(total_) && !known(micro_)) {
      const int64_t divisor = steps_.peek() * world_size;
      if (total_.peek() % divisor != 0) {
        complain(total_.provenance(),
                 "is not a multiple of gradient_accumulation_steps " +
                     std::to_string(steps_.peek()) + " x " + std::to_string(world_size) +
                     (world_size == 1 ? " rank" : " ranks") + "; change one of them");
        return;
      }
      if (micro_.automatic()) derive(micro_, total_.peek() / divisor);
    }
    if (total_.automatic() && known(micro_)) {
      derive(total_, micro_.peek() * steps_.peek() * world_size);
    }
    check(world_size);
  }

 private:
  void derive(Number& number, int64_t value) {
    if (number.automatic()) {
      number.fill(value, "the other batch numbers");
    } else {
      number.set(value, {total_.provenance().source,
                         "from train_batch_size at " + total_.provenance().where,
                         total_.provenance().flag});
    }
  }
  void complain(const Provenance& from, const std::string& reason) {
    problems_.push_back(problem_line(from.where, from.flag, reason));
  }
  void check(int world_size) {
    if (!known(total_) || !known(micro_)) return;
    const int64_t total = total_.peek();
    const int64_t micro = micro_.peek();
    const int64_t steps = steps_.peek();
    if (total == micro * steps * world_size || micro < 1 || steps < 1) return;
    complain(total_.provenance(), std::to_string(total) + " is not " +
                                      product(micro, steps, world_size) + " = " +
                                      std::to_string(micro * steps * world_size) + "; " +
                                      remedy(total, micro, steps, world_size));
  }

  Number& total_;
  Number& micro_;
  Number& steps_;
  std::vector<std::string>& problems_;
};

}  // namespace

void fill_batch_numbers(EngineConfig& config, std::optional<int> world_size,
                        std::vector<std::string>& problems) {
  BatchNumbers numbers(config, problems);
  numbers.nobody_knows();
  if (world_size) numbers.fill(*world_size);
}

}  // namespace zero
