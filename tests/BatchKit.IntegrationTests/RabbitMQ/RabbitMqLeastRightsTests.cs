using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.RabbitMQ;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>The rights that a process needs at the broker, as docs/trust.md lists them: with them everything works, and without any one of them it does not.</summary>
[Trait("Lane", "night: one rule for each way to connect")]
public sealed class RabbitMqLeastRightsTests(OwnRabbitMqFixture fixture) : IClassFixture<OwnRabbitMqFixture>
{
    private const string Password = "secret-of-this-test";

    private static readonly Rights Sender = new(Configure: ["direct"], Write: ["direct"], Read: []);
    private static readonly Rights Receiver = new(Configure: ["direct", "node.1", "lease.1"], Write: ["node.1", "lease.1"], Read: ["direct", "node.1", "lease.1"]);

    private readonly string _prefix = Some.Name("test");
    private readonly CollectingTransport _arrived = new();

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_sender_and_a_receiver_need_no_more_than_their_own_rights(bool routesGroupsByMembers)
    {
        var server = await fixture.GetAsync();
        await GrantAsync(server, [("sends", Sender), ("receives", Receiver)]);
        using var receiver = Host(server, "receives", options => options.RouteGroupsByMembers = routesGroupsByMembers);
        await receiver.StartAsync().WithinDeadline();
        Assert.Null(FaultOf(receiver));
        await using var transport = new RabbitMqTransport(Options(server, "sends", options => options.RouteGroupsByMembers = routesGroupsByMembers));
        await using var output = new OutputBuffer(transport);

        for (var line = 0; line < 3; line++)
        {
            output.Write(Some.Connection(RabbitMqEnds.Node), "to a connection"u8);
            output.Write(Some.Group(), "to a group"u8);
            await output.FlushAsync().WithinDeadline();
        }

        await _arrived.WaitForMessagesAsync(6);
        await receiver.StopAsync().WithinDeadline();
    }

    [Fact]
    public async Task Without_any_one_right_of_its_own_a_receiver_does_not_receive_and_says_so()
    {
        var server = await fixture.GetAsync();
        var lacking = Receiver.EachLackingOne().Select((rights, index) => (Name: $"lacks-{index}", rights)).ToArray();
        await GrantAsync(server, [.. lacking, ("receives", Receiver)]);
        using var first = Host(server, "receives");
        await first.StartAsync().WithinDeadline();
        await first.StopAsync().WithinDeadline();

        foreach (var (name, rights) in lacking)
        {
            using var receiver = Host(server, name);
            var failure = await Record.ExceptionAsync(() => receiver.StartAsync().WithinDeadline());
            var fault = failure?.Message ?? FaultOf(receiver);

            Assert.True(fault?.Contains("refused", StringComparison.OrdinalIgnoreCase) == true, $"With {rights} the receiver's fault is: {fault ?? "none"}");
            await receiver.StopAsync().WithinDeadline();
        }
    }

    [Fact]
    public async Task Without_any_one_right_of_its_own_a_sender_fails_and_says_so()
    {
        var server = await fixture.GetAsync();
        var lacking = Sender.EachLackingOne().Select((rights, index) => (Name: $"lacks-{index}", rights)).ToArray();
        await GrantAsync(server, lacking);

        foreach (var (name, rights) in lacking)
        {
            await using var transport = new RabbitMqTransport(Options(server, name));
            var failure = await Assert.ThrowsAsync<IOException>(() => transport.SendAsync(
                new[] { Some.Batch(Some.Connection(RabbitMqEnds.Node), Some.Producer(), 1, "x") }, CancellationToken.None).AsTask().WithinDeadline());

            Assert.True(failure.Message.Contains("refused", StringComparison.OrdinalIgnoreCase), $"With {rights} the send says: {failure.Message}");
        }
    }

    [Fact]
    public async Task With_a_topology_that_exists_a_sender_writes_to_the_exchange_and_a_receiver_reads_its_queue()
    {
        var server = await fixture.GetAsync();
        await GrantAsync(server, [("sends", new([], ["direct"], [])), ("receives", new([], [], ["node.1"]))]);
        await using var probe = await RabbitMqProbe.ConnectAsync(server);
        await probe.DeclareExchangeAsync(Options(server, "sends"), "direct");
        await probe.DeclareQueueAsync(Options(server, "sends"), $"{_prefix}.node.1", "1", new(StringComparer.Ordinal) { ["x-single-active-consumer"] = true });
        using var receiver = Host(server, "receives", options => options.DeclareTopology = false);
        await receiver.StartAsync().WithinDeadline();
        await using var transport = new RabbitMqTransport(Options(server, "sends", options => options.DeclareTopology = false));

        await RabbitMqEnds.SendLinesAsync(transport, count: 3);

        await _arrived.WaitForMessagesAsync(3);
        Assert.Null(FaultOf(receiver));
        await receiver.StopAsync().WithinDeadline();
    }

    private static string? FaultOf(IHost host) => host.Services.GetRequiredKeyedService<RabbitMqReceiver>(string.Empty).Fault;

    private IHost Host(RabbitMqServer server, string user, Action<RabbitMqOptions>? configure = null)
    {
        var builder = Microsoft.Extensions.Hosting.Host.CreateEmptyApplicationBuilder(new HostApplicationBuilderSettings());
        builder.Services.AddLogging().AddBatchKit(options => options.Node = RabbitMqEnds.Node).UseLocal(_ => _arrived).ReceiveFromRabbitMq(_ => _arrived, options => Configure(options, server, user, configure));
        return builder.Build();
    }

    private RabbitMqOptions Options(RabbitMqServer server, string user, Action<RabbitMqOptions>? configure = null) => RabbitMqSome.Options(server, options => Configure(options, server, user, configure));

    private void Configure(RabbitMqOptions options, RabbitMqServer server, string user, Action<RabbitMqOptions>? configure)
    {
        RabbitMqSome.Configure(options, server, server.Port, _prefix);
        (options.UserName, options.Password) = ($"{_prefix}-{user}", Password);
        configure?.Invoke(options);
    }

    private async Task GrantAsync(RabbitMqServer server, (string Name, Rights Rights)[] users)
    {
        foreach (var (name, rights) in users)
            await server.AddUserAsync($"{_prefix}-{name}", Password, Pattern(rights.Configure), Pattern(rights.Write), Pattern(rights.Read));
    }

    private string Pattern(string[] names) => names.Length == 0 ? "^$" : $"^{_prefix}[.]({string.Join('|', names.Select(static name => name.Replace(".", "[.]", StringComparison.Ordinal)))})$";

    /// <summary>What a user may do with which objects, by their names behind the prefix.</summary>
    private sealed record Rights(string[] Configure, string[] Write, string[] Read)
    {
        public IEnumerable<Rights> EachLackingOne() =>
        [
            .. Configure.Select(name => this with { Configure = [.. Configure.Except([name], StringComparer.Ordinal)] }),
            .. Write.Select(name => this with { Write = [.. Write.Except([name], StringComparer.Ordinal)] }),
            .. Read.Select(name => this with { Read = [.. Read.Except([name], StringComparer.Ordinal)] }),
        ];

        public override string ToString() => $"configure {string.Join(' ', Configure)}, write {string.Join(' ', Write)}, read {string.Join(' ', Read)}";
    }
}
