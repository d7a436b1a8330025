#include "common/config/program.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iostream>
#include <vector>

namespace tercet::config {
namespace {

// CLI11 lets the file win over the environment; here it gives way, because an operator who sets a variable for one process
// means it to count.
class FileBelowEnvironment : public CLI::ConfigTOML {
 public:
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::vector<CLI::ConfigItem> items = CLI::ConfigTOML::from_config(input);
    std::erase_if(items, [](const CLI::ConfigItem& item) {
      bool section_mark = item.name == "++" || item.name == "--";
      return section_mark || (item.parents.empty() && std::getenv(EnvironmentName(item.name).c_str()) != nullptr);
    });
    return items;
  }
};

}  // namespace

std::string EnvironmentName(const std::string& flag) {
  std::string name = "TERCET_";
  for (char c : flag.substr(std::min(flag.find_first_not_of('-'), flag.size()))) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

Program::Program(const std::string& name, const std::string& about) : app_(about, name) {
  app_.set_version_flag("--version", name + " " TERCET_VERSION);
  DeclareConfig("");
  app_.config_formatter(std::make_shared<FileBelowEnvironment>());
  app_.allow_config_extras(false);
  app_.get_formatter()->column_width(34);
}

void Program::DeclareConfig(const std::string& path) {
  app_.set_config("--config", path, "File with flags, one `name = value` a line", /*config_required=*/!path.empty())
      ->envname("TERCET_CONFIG");
}

CLI::Option* Program::Switch(bool& target, const std::string& flag, const std::string& help) {
  return Decorate(app_.add_flag(flag, target, help), flag);
}

CLI::Option* Program::Decorate(CLI::Option* option, const std::string& flag) {
  return option->envname(EnvironmentName(flag));
}

std::optional<int> Program::Parse(int argc, char** argv) {
  if (const char* path = std::getenv("TERCET_CONFIG")) DeclareConfig(path);
  // CLI11 takes an empty value after "=" for a missing one, and would swallow the next argument.
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    bool empty_value = argument.starts_with("--") && argument.size() > 3 && argument.find('=') == argument.size() - 1;
    if (empty_value) argument.pop_back();
    arguments.push_back(argument);
    if (empty_value) arguments.emplace_back();
  }
  std::reverse(arguments.begin(), arguments.end());
  try {
    app_.parse(std::move(arguments));
    return std::nullopt;
  } catch (const CLI::Success& e) {
    return app_.exit(e);
  } catch (const CLI::ConfigError& e) {
    std::string name = e.what();
    name.erase(0, name.find_last_of(' ') + 1);
    std::cerr << app_.get_name() << ": the file of --config sets \"" << name << "\", which is not a flag (see "
              << app_.get_name() << " --help)\n";
    return 2;
  } catch (const CLI::ParseError& e) {
    std::cerr << app_.get_name() << ": " << e.what() << " (see " << app_.get_name() << " --help)\n";
    return 2;
  }
}

}  // namespace tercet::config
