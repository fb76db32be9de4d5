#include "acan/manager/pass_tasks.h"

#include "acan/manager/graph_tasks.h"
#include "perceptron_tasks.h"

namespace acan {

PlannedModel::PlannedModel(const std::shared_ptr<const TrainedModel>& model)
    : perceptron(model->perceptron) {
  if (perceptron) return;
  using SharedGraph = std::shared_ptr<const model::Graph>;
  graphs = std::make_shared<const LoweredModel>(
      LoweredModel{LoweredGraph(SharedGraph(model, &model->training)),
                   LoweredGraph(SharedGraph(model, &model->evaluation))});
}

GraphTasks PassTasks::Graph() const {
  return {*model_.graphs, training_, *plan_.graph, plan_.grids};
}

std::vector<PlannedTask> PassTasks::Initialize(const std::string& job) const {
  if (model_.graphs) return Graph().Initialize(job);
  return PerceptronTasks(*model_.perceptron, training_, plan_).Initialize(job);
}

std::vector<PlannedTask> PassTasks::Tasks(const Pass& pass) const {
  if (model_.graphs) return Graph().Tasks(pass);
  return PerceptronTasks(*model_.perceptron, training_, plan_).Tasks(pass);
}

std::vector<DataCell> PassTasks::DataCells(const Pass& pass) const {
  if (model_.graphs) return Graph().InputCells(pass);
  return PerceptronTasks(*model_.perceptron, training_, plan_).DataCells(pass);
}

std::vector<tuplespace::Tuple> PassTasks::Tables(const Pass& pass) const {
  if (!model_.graphs) return {};
  return Graph().Tables(pass);
}

std::vector<TileCell> PassTasks::Tiles(const std::string& job, std::int64_t version) const {
  if (model_.graphs) return Graph().Tiles(job, version);
  return PerceptronTasks(*model_.perceptron, training_, plan_).Tiles(job, version);
}

std::vector<LossCell> PassTasks::Losses(const Pass& pass) const {
  if (model_.graphs) return Graph().Losses(pass);
  return PerceptronTasks(*model_.perceptron, training_, plan_).Losses(pass);
}

}  // namespace acan
