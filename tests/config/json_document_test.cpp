// SPDX-License-Identifier: Apache-2.0
// JSON as people write it, with the place of each key and value; what it cannot be is refused.
#include <sstream>

#include "tests/config/support.h"

namespace zero::config_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

EngineConfig config_of(const std::string& json) {
  return resolve({}, {parse_json_config(json, "x.json")});
}

std::vector<std::string> problems_of_json(const std::string& json) {
  return problems_of({}, {parse_json_config(json, "x.json")});
}

TEST(LenientJson, TakesCommentsTrailingCommasAndBareWords) {
  const EngineConfig config = config_of(R"({
    // how parameters are kept
    zero_optimization: {
      'stage': 3,  # a number
      "offload_param": {"device": cpu,},
      /* several
         lines */
      overlap_comm: yes
      reduce_scatter: off
    },
    "gradient_clipping": 5e-1,
  })");
  EXPECT_EQ(config.stage.peek(), 3);
  EXPECT_TRUE(config.offload_parameters.peek());
  EXPECT_TRUE(config.overlap_comm.peek());
  EXPECT_FALSE(config.reduce_scatter.peek());
  EXPECT_EQ(config.gradient_clipping.peek(), 0.5);
}

TEST(LenientJson, TakesPythonsWords) {
  const EngineConfig config = config_of(
      "{'zero_optimization': {'stage': 2, 'overlap_comm': False, 'offload_param': None},"
      " 'prescale_gradients': True}");
  EXPECT_EQ(config.stage.peek(), 2);
  EXPECT_FALSE(config.overlap_comm.peek());
  EXPECT_TRUE(config.prescale_gradients.peek());
  EXPECT_FALSE(config.offload_parameters.given());
}

TEST(LenientJson, KeepsSlashesInsideWordsAndTexts) {
  const Document document =
      parse_json("{a: /scratch//swap, b: \"http://x/y\", c: /*1*/ 2 // rest\n}", "x.json");
  ASSERT_THAT(document.problems, IsEmpty());
  EXPECT_EQ(document.root.entries[0].value.scalar.text, "/scratch//swap");
  EXPECT_EQ(document.root.entries[1].value.scalar.text, "http://x/y");
  EXPECT_EQ(document.root.entries[2].value.scalar.text, "2");
}

TEST(LenientJson, ReadsEscapes) {
  const Document document = parse_json(R"({"a": "\u00e9\n\"\\\/\t", 'b': 'it\'s'})", "x.json");
  ASSERT_THAT(document.problems, IsEmpty());
  EXPECT_EQ(document.root.entries[0].value.scalar.text, "\xC3\xA9\n\"\\/\t");
  EXPECT_EQ(document.root.entries[1].value.scalar.text, "it's");
}

TEST(LenientJson, HasThePlacesOfKeysAndValues) {
  const Document document = parse_json("\xEF\xBB\xBF{\n  \"a\": {\"b\": [1, 2]}\n}", "x.json");
  ASSERT_THAT(document.problems, IsEmpty());
  const Entry& a = document.root.entries[0];
  EXPECT_EQ(a.where, "x.json:2:3");
  EXPECT_EQ(a.value.where, "x.json:2:8");
  EXPECT_EQ(a.value.entries[0].where, "x.json:2:9");
  EXPECT_EQ(a.value.entries[0].value.items[1].where, "x.json:2:18");
}

TEST(LenientJson, KeepsDuplicateKeysForTheReader) {
  EXPECT_THAT(problems_of_json("{\"gradient_clipping\": 1,\n \"gradient_clipping\": 2}"),
              ElementsAre(AllOf(StartsWith("x.json:2:2: gradient_clipping: "),
                                HasSubstr("first at x.json:1:2"))));
  EXPECT_THAT(problems_of_json("{zero_optimization: {stage: 1},\n zero_optimization: {stage: 3}}"),
              ElementsAre(AllOf(StartsWith("x.json:2:2: zero_optimization: "),
                                HasSubstr("first at x.json:1:2"))));
}

struct BadText {
  std::string name;
  std::string text;
  std::string says;
};

class BadJson : public ::testing::TestWithParam<BadText> {};

TEST_P(BadJson, IsRefusedWithItsPlace) {
  const auto problems = problems_of_json(GetParam().text);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_THAT(problems[0], HasSubstr(GetParam().says));
  EXPECT_THAT(problems[0], StartsWith("x.json:"));
}

INSTANTIATE_TEST_SUITE_P(
    Texts, BadJson,
    ::testing::ValuesIn(std::vector<BadText>{
        {"OpenMap", "{\"a\": 1", "x.json:1:1: not valid JSON: the bracket is not closed"},
        {"OpenList", "{\"a\": [1, 2", "x.json:1:7: not valid JSON: the bracket is not closed"},
        {"OpenText", "{\"a\": \"b\n}", "x.json:1:7: not valid JSON: the text does not end"},
        {"OpenComment", "{\"a\": 1 /* b }", "x.json:1:9: not valid JSON: a comment that does not"},
        {"NoColon", "{\"a\" 1}", "x.json:1:2: not valid JSON: a key needs ':'"},
        {"NoValue", "{\"a\": }", "x.json:1:7: not valid JSON: a value is missing"},
        {"NoValueAtEnd", "{\"a\":", "x.json:1:2: not valid JSON: a key needs a value"},
        {"NoComma", "{\"a\": \"1\" \"b\": 2}", "x.json:1:11: not valid JSON: expected ','"},
        {"TwoCommas", "{\"a\": 1,, \"b\": 2}", "x.json:1:9: not valid JSON: two commas"},
        {"TextAfterIt", "{} {}", "x.json:1:4: not valid JSON: text after the end"},
        {"BadEscape", "{\"a\": \"\\q\"}", "not valid JSON: an escape that JSON does not know"},
        {"ShortUnicode", "{\"a\": \"\\u12\"}", "four hexadecimal digits"},
        {"TooDeep", std::string(100000, '['), "nested too deeply"},
        {"AList", "[1]", "x.json:1:1: must be a map"},
        {"Nothing", "  // only a comment", "x.json: holds no settings"},
    }),
    [](const auto& info) { return info.param.name; });

TEST(NotANumber, IsRefusedAsAValue) {
  for (const std::string value : {"NaN", "Infinity", "-inf", "nan"}) {
    EXPECT_THAT(problems_of_json("{gradient_clipping: " + value + "}"),
                ElementsAre(HasSubstr("gradient_clipping: must be a number")))
        << value;
  }
}

TEST(YamlDocument, ThatGrowsThroughAnchorsIsRefused) {
  std::ostringstream text;
  text << "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 8; ++i) {
    text << "a" << i << ": &a" << i << " [";
    for (int j = 0; j < 10; ++j) text << (j > 0 ? ", " : "") << "*a" << i - 1;
    text << "]\n";
  }
  EXPECT_THAT(parse_yaml(text.str(), "x.yaml").problems, ElementsAre(HasSubstr("too large")));
}

}  // namespace
}  // namespace zero::config_test
