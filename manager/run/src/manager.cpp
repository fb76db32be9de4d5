#include "acan/manager/manager.h"

#include <map>
#include <mutex>
#include <zmq.hpp>

#include "acan/manager/folder_lock.h"
#include "divergence.h"
#include "fmt/format.h"
#include "job_run.h"
#include "lost_files.h"

namespace acan {

void CheckFolderIsFree(const std::string& out_dir) {
  FolderLock::CheckFree(out_dir);
}

struct Manager::Impl {
  std::optional<Receipt> Run();
  void NoteEarlierLife();
  void BeginAgain(const RunLost& lost);

  // The clients of snapshots and of later lives share these threads and start no others, because
  // ZeroMQ aborts a process that cannot start one. With two, a snapshot has a thread besides
  // the run's.
  static constexpr int kIoThreads = 2;
  std::unique_ptr<zmq::context_t> own_context;  // null: one was given

  ManagerOptions options;
  Job job;
  std::shared_ptr<const TrainedModel> model;
  Data data;
  EarlierLives earlier;
  LostFiles lost_files;
  Disagreements disagreements;
  std::mutex mutex;  // protects `life` and `stop_within_us`, which Stop uses
  std::unique_ptr<JobRun> life;
  std::optional<std::int64_t> stop_within_us;
};

std::optional<Receipt> Manager::Impl::Run() {
  for (;;) {
    try {
      return life->Run();
    } catch (const FilesLost& lost) {
      lost_files.OnLost(lost, life->committed_steps());
      if (!life->SeeksGoodWeights()) earlier.diverged.reset();
      BeginAgain({lost.why + "; the run writes the file again"});
    } catch (const NotDiverged& lost) {
      disagreements.On(life->committed_steps(), life->conflicts());
      earlier.diverged.reset();
      BeginAgain(lost);
    } catch (const RunLost& lost) {
      if (!life->SeeksGoodWeights()) earlier.diverged.reset();
      BeginAgain(lost);
    } catch (const HandlersWrong& wrong) {
      earlier.quarantined.insert(wrong.handlers.begin(), wrong.handlers.end());
      BeginAgain({"the run goes back to a state before they took part"});
    } catch (const NotFiniteFound& found) {
      if (found.disputed) disagreements.On(life->committed_steps(), life->conflicts());
      earlier.diverged = found;
      BeginAgain({found.disputed ? "two lives of the run disagree: it goes back once more"
                                 : "the run goes back to keep the last good weights"});
    }
  }
}

void Manager::Impl::NoteEarlierLife() {
  ++earlier.count;
  earlier.runs = life->RunsLeft();
  earlier.conflicts = life->conflicts();
  earlier.folder = life->folder();
  // Another manager may lead now: this one then stands by.
  options.standby = true;
  options.resume = life->Resumes() || life->HasBegun();
  earlier.found = life->found();
  if (auto counted = life->Counted()) earlier.counted = std::move(counted);
  earlier.receipt.reset();
  if (!options.resume) earlier.receipt = life->earlier_receipt();
}

void Manager::Impl::BeginAgain(const RunLost& lost) {
  if (options.log) options.log(fmt::format("{}: resuming", lost.why));
  NoteEarlierLife();
  auto next = std::make_unique<JobRun>(options, job, model, data, earlier);
  earlier.folder.reset();
  {
    const std::lock_guard lock(mutex);
    life.swap(next);
    if (stop_within_us) life->Stop(*stop_within_us);
  }
  next.reset();  // it waits for its threads, and Stop must not wait for that
}

Manager::Manager(ManagerOptions options, Job job, Data data) : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
  impl_->options.resume |= impl_->options.standby;
  if (impl_->options.context == nullptr) {
    impl_->own_context = std::make_unique<zmq::context_t>(Impl::kIoThreads);
    impl_->options.context = impl_->own_context.get();
  }
  impl_->job = std::move(job);
  impl_->model = BuildModel(impl_->job);
  impl_->data = std::move(data);
  impl_->life = std::make_unique<JobRun>(impl_->options, impl_->job, impl_->model, impl_->data,
                                         impl_->earlier);
}

Manager::~Manager() = default;

std::optional<Receipt> Manager::Run() {
  return impl_->Run();
}

bool Manager::HasBegun() const {
  return impl_->life->Resumes() || impl_->life->HasBegun();
}

bool Manager::LeftStepsInSpace() const {
  return impl_->life->LeftStepsInSpace();
}

void Manager::Stop(std::chrono::microseconds within) {
  const std::lock_guard lock(impl_->mutex);
  impl_->stop_within_us = within.count();
  impl_->life->Stop(within.count());
}

}  // namespace acan
