#include "acan/manager/pass_tasks.h"

namespace acan {

PlannedModel LowerModel(const std::shared_ptr<const TrainedModel>& model) {
  return std::make_shared<const LoweredModel>(LowerGraphs(model->training, model->evaluation));
}

std::vector<PlannedTask> PassTasks::Initialize(const std::string& job) const {
  return Graph().Initialize(job);
}

std::vector<PlannedTask> PassTasks::Tasks(const Pass& pass) const {
  return Graph().Tasks(pass);
}

bool PassTasks::RepeatsCalls() const {
  return !model::HasDropout(model_->training.graph());
}

std::vector<DataCell> PassTasks::DataCells(const Pass& pass) const {
  return Graph().InputCells(pass);
}

std::vector<tuplespace::Tuple> PassTasks::Tables(const Pass& pass) const {
  return Graph().Tables(pass);
}

std::vector<TileCell> PassTasks::Tiles(const std::string& job, std::int64_t version) const {
  return Graph().Tiles(job, version);
}

std::vector<LossCell> PassTasks::Losses(const Pass& pass) const {
  return Graph().Losses(pass);
}

std::optional<tuplespace::Key> PassTasks::GradientNorm(const Pass& pass) const {
  return Graph().GradientNorm(pass);
}

}  // namespace acan
