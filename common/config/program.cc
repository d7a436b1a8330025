#include "common/config/program.h"

#include <cctype>
#include <iostream>

namespace tercet::config {

std::string EnvironmentName(const std::string& flag) {
  std::string name = "TERCET_";
  for (char c : flag.substr(flag.find_first_not_of('-'))) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

Program::Program(const std::string& name, const std::string& about) : app_(about, name) {
  app_.set_version_flag("--version", name + " " TERCET_VERSION);
  app_.set_config("--config", "", "File with flags, one `name = value` a line")->envname("TERCET_CONFIG");
  app_.allow_config_extras(false);
  app_.get_formatter()->column_width(34);
}

CLI::Option* Program::Switch(bool& target, const std::string& flag, const std::string& help) {
  return Decorate(app_.add_flag(flag, target, help), flag);
}

CLI::Option* Program::Decorate(CLI::Option* option, const std::string& flag) {
  return option->envname(EnvironmentName(flag));
}

std::optional<int> Program::Parse(int argc, char** argv) {
  try {
    app_.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::Success& e) {
    return app_.exit(e);
  } catch (const CLI::ParseError& e) {
    std::cerr << app_.get_name() << ": " << e.what() << " (see " << app_.get_name() << " --help)\n";
    return 2;
  }
}

}  // namespace tercet::config
