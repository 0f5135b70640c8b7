using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Options;

namespace BatchKit.Architecture.Tests;

/// <summary>Options that are read from a section: an error says which option of which section it is about.</summary>
public sealed class OptionsSectionTests
{
    private const string OfBuffer = " It is set for the output buffer 'game' in section 'Game:Adapter'.";
    private const string OfQueue = " It is set for the queue 'tasks' in section 'Game:Adapter'.";

    public static TheoryData<string, string, string, string, Action<BatchKitBuilder, IConfiguration>> Adapters => new()
    {
        { "PostgresOptions.MaxStatementBytes", "MaxStatementBytes", "0", OfBuffer, (builder, section) => builder.UsePostgres(section) },
        { "PostgresOptions.Schema", "Schema", "", OfBuffer, (builder, section) => builder.UsePostgres(section) },
        { "PostgresOutboxOptions.BatchSize", "BatchSize", "0", OfBuffer, (builder, section) => builder.UsePostgresOutbox(_ => null!, section) },
        { "PostgresQueueReceiverOptions.MaxAttempts", "MaxAttempts", "0", OfQueue, (builder, section) => builder.ReceiveFromPostgres("tasks", _ => null!, section) },
        { "PostgresQueueReceiverOptions.MaxAttempts", "MaxAttempts", "0", OfQueue, (builder, section) => builder.Services.AddPostgresQueueReceiver("tasks", _ => null!, section) },
    };

    [Theory]
    [MemberData(nameof(Adapters))]
    public void An_error_begins_with_the_options_type_and_ends_with_the_section(string option, string key, string value, string origin, Action<BatchKitBuilder, IConfiguration> use)
    {
        var configuration = new ConfigurationBuilder().AddInMemoryCollection([new($"Game:Adapter:{key}", value)]).Build();
        var services = new ServiceCollection();
        use(services.AddBatchKit("game"), configuration.GetSection("Game:Adapter"));
        using var provider = services.BuildServiceProvider();

        var exception = Assert.Throws<OptionsValidationException>(() => provider.GetRequiredService<IStartupValidator>().Validate());

        Assert.All(exception.Failures, failure =>
        {
            Assert.StartsWith(option, failure, StringComparison.Ordinal);
            Assert.EndsWith(origin, failure, StringComparison.Ordinal);
        });
    }
}
