using BatchKit.HostWorker;
using BatchKit.IntegrationTests.Mqtt;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.IntegrationTests.Stops;
using BatchKit.Testing;
using BatchKit.TestServers.HostWorker;
using BatchKit.TestServers.Postgres;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Options;

namespace BatchKit.IntegrationTests.Hostile;

/// <summary>Each name that a user can give to an object of a broker is refused with an error that names the setting, or it works; a neighbour with an ordinary name gets its own messages, and all of them.</summary>
[Trait("Lane", "night: many hostile names and logins")]
public sealed class HostileNameTests(RabbitMqFixture rabbitMq, MosquittoFixture mosquitto, NatsFixture nats, PostgresFixture postgres)
{
    private const int Node = 2;
    private const int Lines = 3;

    private readonly SharedBrokers _brokers = new(rabbitMq, mosquitto, nats, postgres);

    public static TheoryData<string> Transports => SharedBrokers.Transports;

    [Theory]
    [InlineData(BrokerPath.RabbitMq, "Prefix")]
    [InlineData(BrokerPath.MassTransit, "Prefix")]
    [InlineData(BrokerPath.Mqtt, "EnvelopePrefix")]
    [InlineData(BrokerPath.PostgreSql, "Schema")]
    public Task The_name_of_a_topology_is_refused_by_its_setting_or_works(string transport, string setting) => WithNeighbourAsync(transport, async path =>
    {
        // What runs twice on one broker has other names; the longest ones stay as long.
        var mark = Guid.NewGuid().ToString("N")[..6];
        var (refused, worked) = (0, 0);
        foreach (var name in HostileNames.Create().Select(name => name.Length > mark.Length ? name[..^mark.Length] + mark : name + mark))
        {
            try
            {
                await AssertWorksAsync(path with { Name = name });
                worked++;
            }
            catch (Exception exception) when (RefusedStart.FindIn(exception) is { } refusal)
            {
                Assert.Contains(setting, refusal.Message, StringComparison.Ordinal);
                refused++;
            }
        }

        Assert.True(refused > 0 && worked > 0, $"{refused} refused, {worked} worked");
    });

    [Theory]
    [MemberData(nameof(Transports))]
    public Task The_name_of_a_group_is_refused_when_it_is_written_or_works(string transport) => WithNeighbourAsync(transport, async path =>
    {
        var arrived = new CollectingTransport();
        var host = await StartAsync(path, arrived);
        var output = host.Services.GetRequiredService<OutputBuffer>();
        var accepted = new Dictionary<OutputHandle, string[]>();

        foreach (var name in HostileNames.Create())
        {
            try
            {
                var group = OutputHandle.Named(name);
                foreach (var line in Some.Lines(Lines))
                    output.Write(group, Some.Bytes(line));
                await output.FlushAsync(group).WithinDeadline();
                accepted.Add(group, Some.Lines(Lines));
            }
            catch (ArgumentException refused)
            {
                Assert.Contains("name", refused.Message, StringComparison.Ordinal);
            }
            catch (OutputDeliveryException refused)
            {
                Assert.Contains("name", $"{refused.Message} {refused.InnerException?.Message}", StringComparison.Ordinal);
            }
        }

        await arrived.WaitForMessagesAsync(accepted.Sum(static group => group.Value.Length));
        await PathHost.StopAsync(host);
        Assert.Equal(accepted.Keys.ToHashSet(), arrived.Messages.Select(static message => message.Handle).ToHashSet());
        Assert.All(accepted, group => Assert.Equal(group.Value, arrived.TextsFor(group.Key)));
    });

    private async Task AssertWorksAsync(BrokerPath path)
    {
        var arrived = new CollectingTransport();
        var host = await StartAsync(path, arrived);
        await using var schema = path.Transport == BrokerPath.PostgreSql ? TestSchema.On(await postgres.GetAsync(), path.Name) : null;
        await PathHost.AssertCarriesAndStopAsync(host, Node, arrived);
    }

    /// <summary>Runs a test on a broker beside a path with an ordinary name, over which messages go meanwhile.</summary>
    private Task WithNeighbourAsync(string transport, Func<BrokerPath, Task> test) => _brokers.UseAsync(transport, async path =>
    {
        var arrived = new CollectingTransport();
        var neighbour = await StartAsync(path, arrived);
        var (output, handle) = (neighbour.Services.GetRequiredService<OutputBuffer>(), Some.Connection(Node));
        output.Write(handle, "before"u8);
        await output.FlushAsync().WithinDeadline();

        await _brokers.UseAsync(transport, test);

        output.Write(handle, "after"u8);
        await output.FlushAsync().WithinDeadline();
        await arrived.WaitForMessagesAsync(2);
        await PathHost.StopAsync(neighbour);
        Assert.Equal(["before", "after"], arrived.Texts);
    });

    private static IHost Build(BrokerPath path, CollectingTransport arrived) => PathHost.Build(services =>
        services.AddBatchKit(options => options.Node = Node).SendTo(path, Node).ReceiveFrom(path, Node, _ => arrived));

    private static async Task<IHost> StartAsync(BrokerPath path, CollectingTransport arrived)
    {
        var host = Build(path, arrived);
        await host.StartAsync().WithinDeadline();
        HealthReport report = null!;
        try
        {
            await Until.TrueAsync(async () => (report = await host.Services.GetRequiredService<HealthCheckService>().CheckHealthAsync()).Status == HealthStatus.Healthy);
        }
        catch (TimeoutException)
        {
            Assert.Fail($"'{path.Name}' neither works nor is it refused: {string.Join(' ', report.Entries.Values.Select(static entry => entry.Description))}");
        }

        return host;
    }
}
