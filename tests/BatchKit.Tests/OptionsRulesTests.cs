using System.ComponentModel.DataAnnotations;
using BatchKit.Transports;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;

namespace BatchKit.Tests;

public sealed class OptionsRulesTests
{
    private readonly ServiceCollection _services = new();
    private readonly LogCollector _log = new();
    private IConfiguration _configuration = new ConfigurationBuilder()
        .AddInMemoryCollection([new("Game:Broker:Port", "7"), new("Game:Broker:Host", ""), new("Other:Port", "-1")]).Build();

    [Fact]
    public void Every_failure_begins_with_the_type_and_ends_with_where_the_options_are_set()
    {
        Add("game", "Game:Broker");

        var exception = Assert.Throws<OptionsValidationException>(() => Options("game"));

        Assert.Equal(
        [
            "SomeOptions.Host must name a broker. It is set for the output buffer 'game' in section 'Game:Broker'.",
            "SomeOptions.Port must be between 10 and 20. It is set for the output buffer 'game' in section 'Game:Broker'.",
        ], exception.Failures.Order(StringComparer.Ordinal));
    }

    [Fact]
    public void Options_that_are_registered_twice_are_checked_once_and_keep_both_settings()
    {
        Add("game", "Other");
        Add("game", section: null, options => options.Host = "here");

        var exception = Assert.Throws<OptionsValidationException>(() => Options("game"));

        Assert.Equal(
            "SomeOptions.Port must be between 10 and 20. It is set for the output buffer 'game' in section 'Other'.", Assert.Single(exception.Failures));
    }

    [Fact]
    public void What_is_configured_in_code_changes_what_was_read_and_other_names_have_their_own()
    {
        Add("game", "Game:Broker", options => (options.Port, options.Host) = (options.Port + 5, "here"));
        Add("", section: null, options => (options.Port, options.Host) = (20, "there"));

        Assert.Equal((12, "here"), (Options("game").Port, Options("game").Host));
        Assert.Equal((20, "there"), (Options("").Port, Options("").Host));
    }

    [Fact]
    public void An_unknown_key_is_warned_of_with_the_nearest_setting_and_what_other_options_know_is_not()
    {
        Set(("Game:Broker:Hots", "there"), ("Game:Broker:Speed", "9"), ("Game:Broker:Users:Fred", "1"), ("Game:Broker:Wheres:City", "Rome"));
        Add("game", "Game:Broker");
        OptionsRules.Add(_services, "game", new OtherRules(), configure: null, _configuration.GetSection("Game:Broker"), static (section, options) => section.Bind(options));

        Read("game");

        Assert.Equal(
        [
            (12, "Warning The configuration key 'Game:Broker:Hots' is unknown and is ignored. Did you mean 'Host'? "),
            (12, "Warning The configuration key 'Game:Broker:Wheres' is unknown and is ignored. Did you mean 'Where'? "),
        ], _log.Entries.Select(entry => (entry.Id, entry.Text)));
    }

    [Fact]
    public void A_section_is_warned_of_once_whoever_reads_it()
    {
        Set(("Game:Broker:Hots", "there"));
        Add("game", "Game:Broker");
        Add("game", "Game:Broker");
        Add("", "Game:Broker");

        Read("game");
        Read("");

        Assert.Equal(1, _log.Count(12));
    }

    [Fact]
    public void A_missing_section_is_warned_of_and_a_whole_configuration_is_not_searched()
    {
        Add("game", "Gane:Broker");
        OptionsRules.Add(_services, "game", new OtherRules(), configure: null, _configuration, static (section, options) => section.Bind(options));

        Read("game");

        Assert.Equal([(13, "Warning The configuration has no section 'Gane:Broker', so its settings have their defaults. ")], _log.Entries.Select(entry => (entry.Id, entry.Text)));
    }

    [Fact]
    public void A_value_in_the_place_of_a_section_is_warned_of()
    {
        Set(("Game:Broker", "mqtt://broker"));
        Add("game", "Game:Broker");

        Read("game");

        Assert.Equal([(13, "Warning The configuration has a value instead of the section 'Game:Broker', so its settings have their defaults. ")], _log.Entries.Select(entry => (entry.Id, entry.Text)));
    }

    [Fact]
    public void A_section_inside_another_is_searched_where_options_know_it()
    {
        Set(("Game:Broker:Host", "here"), ("Game:Broker:Inn:Ctiy", "Rome"));
        ConfigurationKeys.Of(_services).Add<Place>("Game:Broker:Inn");
        Add("game", "Game:Broker");

        Read("game");

        Assert.Contains("'Game:Broker:Inn:Ctiy'", Assert.Single(_log.Entries).Text, StringComparison.Ordinal);
    }

    [Fact]
    public void Settings_inside_others_and_in_the_elements_of_a_list_are_searched()
    {
        Set(("Game:Broker:Host", "here"), ("Game:Broker:Where:Ctiy", "Rome"), ("Game:Broker:Stops:0:City", "Bonn"), ("Game:Broker:Stops:1:Town:Name", "Ulm"), ("Game:Broker:Stops:2:Towns:Name", "Köln"));
        Add("game", "Game:Broker");

        Read("game");

        Assert.Equal(
        [
            "Warning The configuration key 'Game:Broker:Stops:2:Towns' is unknown and is ignored. Did you mean 'Town'? ",
            "Warning The configuration key 'Game:Broker:Where:Ctiy' is unknown and is ignored. Did you mean 'City'? ",
        ], _log.Entries.Select(entry => entry.Text).Order(StringComparer.Ordinal));
    }

    [Fact]
    public void Settings_that_are_null_are_not_a_missing_section()
    {
        Set(("Game:Broker:Host", "here"), ("Game:Broker:Where", null));
        Add("game", "Game:Broker");

        Read("game");

        Assert.Empty(_log.Entries);
    }

    [Fact]
    public void A_section_that_is_given_twice_is_read_before_the_changes_in_code_of_both()
    {
        Set(("Game:Broker:Port", "11"), ("Game:Broker:Host", "there"), ("Other:Host", "elsewhere"));
        Add("game", "Game:Broker", static options => (options.Port, options.Host) = (options.Port + 1, "here"));
        Add("game", "game:broker", static options => options.Port++);
        Add("", "Game:Broker");

        Assert.Equal((13, "here"), (Options("game").Port, Options("game").Host));
        Assert.Equal("there", Options("").Host);

        Add("game", "Other");
        Assert.Equal("elsewhere", Options("game").Host);
    }

    [Fact]
    public void A_logger_that_throws_at_a_warning_does_not_keep_the_options_from_being_read()
    {
        Set(("Game:Broker:Hots", "there"));
        Add("game", "Game:Broker", static options => (options.Port, options.Host) = (12, "here"));
        _services.AddSingleton<ILoggerFactory>(new ThrowingLoggers());

        Assert.Equal(12, Options("game").Port);
    }

    [Fact]
    public void A_value_that_is_none_of_a_settings_names_is_answered_with_all_of_them()
    {
        Set(("Game:Broker:Mode", "sometimes"));
        Add("game", "Game:Broker");

        var exception = Assert.Throws<OptionsValidationException>(() => Options("game"));

        Assert.EndsWith("Write one of Never, Always. It is set for the output buffer 'game' in section 'Game:Broker'.", Assert.Single(exception.Failures), StringComparison.Ordinal);
    }

    private void Set(params (string Key, string? Value)[] settings) =>
        _configuration = new ConfigurationBuilder().AddInMemoryCollection(settings.Select(static setting => KeyValuePair.Create(setting.Key, setting.Value))).Build();

    private void Read(string name)
    {
        _services.AddSingleton<ILoggerFactory>(_log);
        _services.Configure<SomeOptions>(name, static options => (options.Port, options.Host) = (12, "here"));
        var provider = _services.BuildServiceProvider();
        _ = provider.GetRequiredService<IOptionsMonitor<SomeOptions>>().Get(name);
        _ = provider.GetRequiredService<IOptionsMonitor<OtherOptions>>().Get(name);
    }

    private void Add(string name, string? section, Action<SomeOptions>? configure = null) => OptionsRules.Add(
        _services, name, new SomeRules(), configure, section is null ? null : _configuration.GetSection(section), static (section, options) => section.Bind(options));

    private SomeOptions Options(string name) => _services.BuildServiceProvider().GetRequiredService<IOptionsMonitor<SomeOptions>>().Get(name);

    private sealed class SomeOptions
    {
        public int Port { get; set; }

        public string Host { get; set; } = "";

        public Mode Mode { get; set; }

        [InnerOptions(typeof(Place))]
        public Place? Where { get; set; }

        [InnerOptions(typeof(Stop))]
        public IList<Stop> Stops { get; set; } = [];
    }

    private enum Mode
    {
        Never = 0,
        Always = 1,
    }

    private sealed class Stop
    {
        public string City { get; set; } = "";

        public Place? Town { get; set; }
    }

    private sealed class Place
    {
        public string City { get; set; } = "";
    }

    private sealed class OtherOptions
    {
        public int Speed { get; set; }
    }

    private sealed class OtherRules : IValidateOptions<OtherOptions>
    {
        public ValidateOptionsResult Validate(string? name, OtherOptions options) => ValidateOptionsResult.Success;
    }

    /// <summary>Reports as generated rules do: a standard attribute names type and member, and a rule in code the member alone.</summary>
    private sealed class SomeRules : IValidateOptions<SomeOptions>
    {
        public ValidateOptionsResult Validate(string? name, SomeOptions options)
        {
            var builder = new ValidateOptionsResultBuilder();
            if (options.Port is < 10 or > 20)
                builder.AddResult(new ValidationResult($"The field {name ?? nameof(SomeOptions)}.Port must be between 10 and 20.", ["Port"]));
            if (options.Host.Length == 0)
                builder.AddResult(new ValidationResult("Host must name a broker.", ["Host"]));
            return builder.Build();
        }
    }
}
