using System.ComponentModel.DataAnnotations;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Options;

namespace BatchKit.Tests;

public sealed class OptionsRulesTests
{
    private readonly ServiceCollection _services = new();
    private readonly IConfiguration _configuration = new ConfigurationBuilder()
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

    private void Add(string name, string? section, Action<SomeOptions>? configure = null) => OptionsRules.Add(
        _services, name, new SomeRules(), configure, section is null ? null : _configuration.GetSection(section), static (section, options) => section.Bind(options));

    private SomeOptions Options(string name) => _services.BuildServiceProvider().GetRequiredService<IOptionsMonitor<SomeOptions>>().Get(name);

    private sealed class SomeOptions
    {
        public int Port { get; set; }

        public string Host { get; set; } = "";
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
