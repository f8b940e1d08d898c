// SPDX-License-Identifier: Apache-2.0
// Each kind of thing that people write into a DeepSpeed configuration, and what becomes of it.
#include "tests/config/support.h"

namespace zero::config_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

std::vector<std::string> problems(const std::string& json, const StrategyOptions& caller = {}) {
  return problems_of(caller, {parse_json_config(json, "x.json")});
}

Resolved loaded(const std::string& json, const StrategyOptions& caller = {}) {
  return resolve_all(caller, {parse_json_config(json, "x.json")});
}

TEST(Kind, NestedKeysReachTheirSettings) {
  const EngineConfig config = loaded(R"({
    "zero_optimization": {
      "stage": 3, "overlap_comm": false, "reduce_bucket_size": 1e6, "sub_group_size": "2e6",
      "stage3_prefetch_bucket_size": 3e6, "max_live_parameters": 4000000,
      "offload_param": {"device": "cpu", "pin_memory": false},
      "offload_optimizer": {"device": "cpu", "ratio": 0.5}},
    "bf16": {"enabled": true}, "gradient_clipping": 1})")
                                  .config.engine;
  EXPECT_EQ(config.stage.peek(), 3);
  EXPECT_FALSE(config.overlap_comm.peek());
  EXPECT_EQ(config.reduce_bucket_size.peek(), 1000000);
  EXPECT_EQ(config.sub_group_size.peek(), 2000000);
  EXPECT_EQ(config.prefetch_bucket_size.peek(), 3000000);
  EXPECT_EQ(config.max_live_parameters.peek(), 4000000);
  EXPECT_TRUE(config.offload_parameters.peek());
  EXPECT_FALSE(config.offload_parameters_pin_memory.peek());
  EXPECT_TRUE(config.offload_optimizer.peek());
  EXPECT_EQ(config.offload_optimizer_ratio.peek(), 0.5);
  EXPECT_EQ(config.precision.peek(), Precision::kBf16);
  EXPECT_EQ(config.gradient_clipping.peek(), 1.0);
}

TEST(Kind, SettingsKeepThePathAndThePlaceThatTheUserWrote) {
  const EngineConfig config =
      loaded("{\n \"zero_optimization\": {\n  \"stage\": 2}}").config.engine;
  EXPECT_EQ(config.stage.provenance().where, "x.json:3:12");
  EXPECT_EQ(config.stage.provenance().flag, "zero_optimization.stage");
}

TEST(Kind, MisspeltKeysGetTheNearestName) {
  EXPECT_THAT(problems(R"({"zero_optimization": {"stage": 1, "overlap_com": true}})"),
              ElementsAre(AllOf(HasSubstr("zero_optimization.overlap_com: unknown key"),
                                HasSubstr("did you mean overlap_comm?"))));
  EXPECT_THAT(problems(R"({"gradient_cliping": "auto"})"),
              ElementsAre(HasSubstr("did you mean gradient_clipping?")));
  EXPECT_THAT(problems(R"({"fp16": {"enable": false}})"),
              ElementsAre(AllOf(HasSubstr("fp16.enable"), HasSubstr("did you mean enabled?"))));
  EXPECT_THAT(problems(R"({"zero_optimization": {"offload_param": {"devise": "cpu"}}})"),
              ElementsAre(AllOf(HasSubstr("zero_optimization.offload_param.devise"),
                                HasSubstr("did you mean device?"))));
  EXPECT_THAT(problems(R"({"zero_optimization": {"stage": 2, "cpu-offload": true}})"),
              ElementsAre(AllOf(HasSubstr("did you mean cpu_offload?"), HasSubstr("deprecated"))));
}

TEST(Kind, ASectionsNameInsideItMeansItsSwitch) {
  EXPECT_THAT(
      problems(R"({"fp16": {"fp16": true}})"),
      ElementsAre(AllOf(HasSubstr("fp16.fp16: unknown key"), HasSubstr("write fp16.enabled"))));
}

TEST(Kind, NamesMadeOfTheSameWordsAreFound) {
  EXPECT_THAT(problems(R"({"micro_batch_per_gpu": 2})"),
              ElementsAre(HasSubstr("did you mean train_micro_batch_size_per_gpu?")));
  EXPECT_THAT(problems(R"({"elasticity": {"enabled": false, "max_allowed_batch_size": 2}})"),
              ElementsAre(HasSubstr("did you mean max_train_batch_size?")));
}

TEST(Kind, KeysAtTheWrongLevelAreSentToTheRightOne) {
  EXPECT_THAT(
      problems(R"({"contiguous_gradients": true, "stage": 3, "zero_stage": 2,
                   "zero_optimization": {"gradient_clipping": 1.0, "cpu_checkpointing": false,
                                         "aio": {}, "loss_scale": 0}})"),
      UnorderedElementsAre(
          AllOf(HasSubstr(": contiguous_gradients: "), HasSubstr("belongs in zero_optimization")),
          AllOf(HasSubstr(": stage: "), HasSubstr("belongs in zero_optimization")),
          AllOf(HasSubstr(": zero_stage: "), HasSubstr("here it is zero_optimization.stage")),
          AllOf(HasSubstr("zero_optimization.gradient_clipping"),
                HasSubstr("belongs at the top level")),
          AllOf(HasSubstr("zero_optimization.cpu_checkpointing"),
                HasSubstr("belongs in activation_checkpointing")),
          AllOf(HasSubstr("zero_optimization.aio"), HasSubstr("belongs at the top level")),
          AllOf(HasSubstr("zero_optimization.loss_scale"), HasSubstr("in fp16"))));
}

TEST(Kind, FlatFilesHoldTheFlagsOfTrainersWithoutSections) {
  const EngineConfig config = config_from(
      "stage: 3\noffload_params_device: cpu\noffload_optimizer_device: cpu\noverlap_comm: false\n"
      "stage3_max_live_parameters: 5e8\naccumulate_grad_batches: 2\ngradient_clip_val: 0.5\n"
      "precision: bf16-mixed\n");
  EXPECT_TRUE(config.offload_parameters.peek());
  EXPECT_TRUE(config.offload_optimizer.peek());
  EXPECT_FALSE(config.overlap_comm.peek());
  EXPECT_EQ(config.max_live_parameters.peek(), 500000000);
  EXPECT_EQ(config.gradient_accumulation_steps.peek(), 2);
  EXPECT_EQ(config.gradient_clipping.peek(), 0.5);
  EXPECT_EQ(config.precision.peek(), Precision::kBf16);
}

TEST(Kind, AccelerateFilesAreRead) {
  const Resolved resolved = resolve_all(
      {}, {parse_config("compute_environment: LOCAL_MACHINE\ndeepspeed_config:\n"
                        "  zero_stage: 3\n  offload_param_device: cpu\n"
                        "  offload_optimizer_device: none\n  gradient_clipping: 1.0\n"
                        "  zero3_init_flag: true\n  zero3_save_16bit_model: true\n"
                        "distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_processes: 2\n",
                        "x.yaml")});
  const EngineConfig& config = resolved.config.engine;
  EXPECT_EQ(config.stage.peek(), 3);
  EXPECT_TRUE(config.offload_parameters.peek());
  EXPECT_FALSE(config.offload_optimizer.peek());
  EXPECT_EQ(config.precision.peek(), Precision::kBf16);
  EXPECT_THAT(resolved.notices,
              ::testing::Contains(AllOf(HasSubstr("compute_environment, num_processes"),
                                        HasSubstr("the launcher's"))));
}

TEST(Kind, OldFormsAreTranslatedWithANotice) {
  const Resolved old = loaded(R"({"zero_optimization":
      {"stage": 3, "cpu_offload": true, "cpu_offload_param": true}})");
  EXPECT_TRUE(old.config.engine.offload_optimizer.peek());
  EXPECT_TRUE(old.config.engine.offload_parameters.peek());
  EXPECT_THAT(old.notices,
              ::testing::IsSupersetOf({HasSubstr("cpu_offload: deprecated: read as offload_opt"),
                                       HasSubstr("read as offload_param")}));
  const Resolved clip =
      loaded(R"({"optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "max_grad_norm": 0.5}}})");
  EXPECT_EQ(clip.config.engine.gradient_clipping.peek(), 0.5);
  EXPECT_THAT(clip.notices, ::testing::Contains(HasSubstr("read as gradient_clipping")));
}

TEST(Kind, OldAndNewFormOfOneThingAreNamedTogether) {
  EXPECT_THAT(problems(R"({"zero_optimization": {"stage": 2, "cpu_offload": true,
                           "offload_optimizer": {"device": "cpu"}}})"),
              ElementsAre(AllOf(HasSubstr("offload_optimizer.device: means the same as "
                                          "zero_optimization.cpu_offload at x.json:1:"),
                                HasSubstr("keep one"))));
  EXPECT_THAT(problems(R"({"zero_optimization": {"stage": 3, "max_live_parameters": 1,
                           "stage3_max_live_parameters": 1}})"),
              ElementsAre(HasSubstr("means the same as")));
  EXPECT_THAT(problems(R"({"gradient_clipping": 1.0,
                           "optimizer": {"type": "Adam", "params": {"max_grad_norm": 2.0}}})"),
              ElementsAre(HasSubstr("means the same as gradient_clipping")));
}

TEST(Kind, SwitchesWrittenForSectionsAreUnderstood) {
  EXPECT_EQ(loaded(R"({"zero_optimization": true})").config.engine.stage.peek(), 1);
  EXPECT_EQ(loaded(R"({"zero_optimization": false})").config.engine.stage.peek(), 0);
  const Resolved offload =
      loaded(R"({"zero_optimization": {"stage": 2, "offload_optimizer": true}})");
  EXPECT_TRUE(offload.config.engine.offload_optimizer.peek());
  EXPECT_THAT(offload.notices, ::testing::Contains(HasSubstr("{device: cpu}")));
  EXPECT_THAT(problems(R"({"optimizer": "Adam"})"),
              ElementsAre(HasSubstr("optimizer: must be a map")));
}

TEST(Kind, NvmeNamesWhatIsMissing) {
  EXPECT_THAT(problems(R"({"zero_optimization": {"stage": 3,
                           "offload_optimizer": {"device": "nvme"}}})"),
              UnorderedElementsAre(HasSubstr("NVMe are not supported yet"),
                                   HasSubstr("nvme_path is missing")));
}

TEST(Kind, APartnerMayComeFromAnotherSource) {
  const std::string json = R"({"activation_checkpointing": {"partition_activations": false,
                               "contiguous_memory_optimization": true}})";
  EXPECT_THAT(
      problems(json),
      ElementsAre(AllOf(HasSubstr("activation_checkpointing.contiguous_memory_optimization"),
                        HasSubstr("needs number_checkpoints"))));
  EXPECT_THAT(problems(json, StrategyOptions().number_checkpoints(4)), IsEmpty());
}

TEST(Kind, FeaturesOutsideAreRefusedOnAndNotedOff) {
  EXPECT_THAT(problems(R"({"sparse_attention": {"mode": "fixed"}, "amp": {"enabled": true},
                           "hybrid_engine": {"enabled": true}, "gradient_allreduce_op": "sum",
                           "compression_training": {"layer_reduction": {"enabled": false}}})"),
              UnorderedElementsAre(HasSubstr("sparse_attention: "), HasSubstr("amp: "),
                                   HasSubstr("hybrid_engine: "), HasSubstr("must be mean, got"),
                                   HasSubstr("compression_training: ")));
  const Resolved off = loaded(R"({"elasticity": {"enabled": false}, "amp": {"enabled": "auto"},
                                  "sparse_attention": null, "wandb": {"enabled": false}})");
  EXPECT_THAT(off.notices,
              ::testing::IsSupersetOf({HasSubstr("elasticity: is off"), HasSubstr("amp: is off"),
                                       HasSubstr("wandb: is off")}));
}

TEST(Kind, HintsThatAreDecidedElsewhereAreNotedAndTypeChecked) {
  EXPECT_THAT(
      loaded(R"({"zero_optimization": {"stage": 1, "round_robin_gradients": true}})").notices,
      ::testing::Contains(HasSubstr("zero_optimization.round_robin_gradients: ")));
  EXPECT_THAT(problems(R"({"zero_optimization": {"round_robin_gradients": "sometimes"}})"),
              ElementsAre(HasSubstr("must be true or false, got the string \"sometimes\"")));
  EXPECT_THAT(problems(R"({"steps_per_print": [10]})"),
              ElementsAre(HasSubstr("must be a whole number of at least 0, got a list")));
}

TEST(Kind, KeysOfAnotherStageAreNotedInOneLine) {
  const Resolved resolved = loaded(R"({"zero_optimization": {"stage": 2,
      "stage3_prefetch_bucket_size": 5e7, "stage3_max_reuse_distance": 1e9,
      "stage3_gather_16bit_weights_on_model_save": true}})");
  EXPECT_THAT(resolved.notices,
              ::testing::Contains(AllOf(HasSubstr("stage3_prefetch_bucket_size"),
                                        HasSubstr("stage3_max_reuse_distance"),
                                        HasSubstr("stage3_gather_16bit_weights_on_model_save"),
                                        HasSubstr("acts at stage 3 only"))));
  EXPECT_THAT(unread_settings(resolved.config.engine), ElementsAre(StartsWith("stage = 2")));
}

TEST(Kind, AutoIsRefusedWhereNobodyFillsItAndReplacedByTheCaller) {
  const std::string json = R"({"gradient_clipping": "auto", "zero_optimization": {"stage": 2}})";
  EXPECT_THAT(problems(json), ElementsAre(AllOf(HasSubstr("gradient_clipping: must be a number"),
                                                HasSubstr("got auto"))));
  EXPECT_EQ(
      loaded(json, StrategyOptions().gradient_clipping(2)).config.engine.gradient_clipping.peek(),
      2.0);
}

TEST(Kind, AutoSizesWaitForTheModel) {
  EngineConfig config = loaded(R"({"zero_optimization": {"stage": 3, "reduce_bucket_size": "auto",
      "stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto"},
      "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}})")
                            .config.engine;
  EXPECT_EQ(fill_auto(config, {}).size(), 4U);
  EXPECT_THAT(fill_auto(config, {.width = 4096, .precision = Precision::kBf16}), IsEmpty());
  EXPECT_EQ(config.reduce_bucket_size.peek(), 4096 * 4096);
  EXPECT_EQ(config.prefetch_bucket_size.peek(), 15099494);
  EXPECT_EQ(config.persistence_threshold.peek(), 40960);
  EXPECT_EQ(config.precision.peek(), Precision::kBf16);
  EXPECT_THAT(config.reduce_bucket_size.provenance().where,
              HasSubstr("auto from the model's width 4096"));
}

TEST(Kind, ASwitchThatIsOnLeavesNothingToTheAutoOfAnother) {
  EXPECT_EQ(loaded(R"({"fp16": {"enabled": "auto"}, "bf16": {"enabled": true}})")
                .config.engine.precision.peek(),
            Precision::kBf16);
  EXPECT_FALSE(loaded(R"({"fp16": {"enabled": "auto"}, "bf16": {"enabled": true}})")
                   .config.engine.precision.automatic());
}

TEST(ModelWidth, IsTheLastSizeOfMostElements) {
  EXPECT_EQ(model_width({{64, 64 * 192}, {64, 64 * 64}, {256, 256 * 64}}), 64);
  EXPECT_EQ(model_width({}), std::nullopt);
}

std::vector<std::string> batch_problems(const std::string& json, int ranks) {
  try {
    resolve_all({}, {parse_json_config(json, "x.json")}, {.world_size = ranks});
  } catch (const ConfigError& error) {
    return error.problems();
  }
  return {};
}

TEST(BatchNumbers, MustFitTheRanks) {
  const std::string json = R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 4,
                               "gradient_accumulation_steps": 2})";
  EXPECT_THAT(batch_problems(json, 4), IsEmpty());
  EXPECT_THAT(
      batch_problems(json, 3),
      ElementsAre(AllOf(HasSubstr("32 is not train_micro_batch_size_per_gpu 4 x "
                                  "gradient_accumulation_steps 2 x 3 ranks = 24"),
                        HasSubstr("set train_batch_size to 24"), HasSubstr("run 4 ranks"))));
  EXPECT_THAT(batch_problems(R"({"train_batch_size": 33, "train_micro_batch_size_per_gpu": 4})", 2),
              ElementsAre(HasSubstr("is not a multiple of")));
}

TEST(BatchNumbers, TwoGiveTheThird) {
  const auto config = resolve_all({},
                                  {parse_json_config(R"({"train_batch_size": 32,
      "train_micro_batch_size_per_gpu": 4})",
                                                     "x.json")},
                                  {.world_size = 2})
                          .config.engine;
  EXPECT_EQ(config.gradient_accumulation_steps.peek(), 4);
  EXPECT_TRUE(config.gradient_accumulation_steps.given());
}

TEST(BatchNumbers, OfAutoAreNamedTogetherUnlessTheCallerPassesOne) {
  const std::string json = R"({"train_batch_size": "auto", "gradient_accumulation_steps": "auto",
                               "train_micro_batch_size_per_gpu": "auto"})";
  EXPECT_THAT(problems(json),
              ElementsAre(AllOf(HasSubstr("train_batch_size, train_micro_batch_size_per_gpu, "
                                          "gradient_accumulation_steps: auto"),
                                HasSubstr("StrategyOptions()"))));
  const auto config = resolve_all(StrategyOptions().train_micro_batch_size_per_gpu(8),
                                  {parse_json_config(json, "x.json")}, {.world_size = 2})
                          .config.engine;
  EXPECT_EQ(config.gradient_accumulation_steps.peek(), 1);
  EXPECT_EQ(config.train_batch_size.peek(), 16);
}

TEST(Optimizer, ParametersArriveTyped) {
  const OptimizerSettings settings = loaded(R"({"optimizer": {"type": "adamw", "params":
      {"lr": "2e-5", "betas": [0.9, 0.95], "eps": 1e-6, "weight_decay": 0.1}}})")
                                         .config.optimizer;
  EXPECT_EQ(settings.type.peek(), "AdamW");
  EXPECT_EQ(settings.lr.peek(), 2e-5);
  EXPECT_THAT(settings.betas.peek(), ElementsAre(0.9, 0.95));
  EXPECT_FALSE(settings.momentum.given());
}

TEST(Optimizer, WrongTypesParametersAndListsAreRefused) {
  EXPECT_THAT(problems(R"({"optimizer": {"type": "OneBitAdam"}})"),
              ElementsAre(HasSubstr("optimizer.type: must be AdamW, Adam")));
  EXPECT_THAT(
      problems(R"({"optimizer": {"type": "SGD", "params": {"lr": 1, "betas": [0.9, 0.9]}}})"),
      ElementsAre(HasSubstr("SGD has no betas")));
  EXPECT_THAT(problems(R"({"optimizer": {"type": "Adam", "params": {"betas": [0.9]}}})"),
              ElementsAre(HasSubstr("optimizer.params.betas: must be a list of two numbers")));
  EXPECT_THAT(problems(R"({"optimizer": {"type": "Adam", "params": {"betas": [0.9, 1.5]}}})"),
              ElementsAre(HasSubstr("from 0 to 1")));
  EXPECT_THAT(problems(R"({"optimizer": {"params": {"lr": 0.1}}})"),
              ElementsAre(HasSubstr("needs optimizer.type")));
}

TEST(Scheduler, IsToldWhoseParametersItWasGiven) {
  EXPECT_THAT(problems(R"({"scheduler": {"type": "WarmupLR", "params": {"total_num_steps": 9}}})"),
              ElementsAre(AllOf(HasSubstr("WarmupLR has no total_num_steps"),
                                HasSubstr("WarmupDecayLR, WarmupCosineLR or"))));
  EXPECT_THAT(problems(R"({"scheduler": {"type": "WarmupDecayLR", "params": {}}})"),
              ElementsAre(HasSubstr("WarmupDecayLR needs scheduler.params.total_num_steps")));
}

TEST(LossScale, UnderBf16IsOneLine) {
  EXPECT_THAT(problems(R"({"bf16": {"enabled": true, "loss_scale": 128, "hysteresis": 2}})"),
              ElementsAre(AllOf(HasSubstr("bf16.loss_scale, bf16.hysteresis: bf16 has no loss "
                                          "scaling; these keys belong to fp16"))));
  EXPECT_THAT(loaded(R"({"bf16": {"enabled": true, "loss_scale": 0, "hysteresis": 2}})").notices,
              ::testing::Contains(HasSubstr("bf16.loss_scale, bf16.hysteresis: bf16 has no")));
}

TEST(Problems, OfAFileComeAllTogether) {
  EXPECT_EQ(problems(R"({"train_batch_size": 0, "optimzer": {}, "gradient_clipping": "high",
      "zero_optimization": {"stage": 7, "offload_param": {"device": "disk"}, "aio": {}}})")
                .size(),
            6U);
}

// The configuration of an inference run that was asked about: bucket sizes made from the width.
TEST(WholeFiles, OfAWideModelsInferenceLoads) {
  const Resolved resolved = loaded(R"({
    "fp16": {"enabled": false}, "bf16": {"enabled": true},
    "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu", "pin_memory": true},
      "overlap_comm": true, "contiguous_gradients": true, "reduce_bucket_size": 16777216,
      "stage3_prefetch_bucket_size": 15099494.4, "stage3_param_persistence_threshold": 40960},
    "steps_per_print": 2000, "train_batch_size": 1, "train_micro_batch_size_per_gpu": 1,
    "wall_clock_breakdown": false})");
  EXPECT_EQ(resolved.config.engine.prefetch_bucket_size.peek(), 15099494);
  EXPECT_THAT(resolved.notices, ::testing::Contains(HasSubstr("rounded 15099494.4 down")));
}

}  // namespace
}  // namespace zero::config_test
