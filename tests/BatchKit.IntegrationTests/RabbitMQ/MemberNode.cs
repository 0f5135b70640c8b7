using System.Text;
using BatchKit.Broadcast;
using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>A gateway: clients, and a receiver of their output that knows who is in which group.</summary>
internal sealed class MemberNode : IAsyncDisposable
{
    private MemberNode(RabbitMqReceiver receiver, BroadcastTransport clients)
    {
        Receiver = receiver;
        Clients = clients;
    }

    public RabbitMqReceiver Receiver { get; }

    public BroadcastTransport Clients { get; }

    public long Frames => Receiver.GetStatistics().ReceivedFrames;

    /// <summary>Settings with which a sender knows from its first send on what is bound, because no broker of a test has just been restarted.</summary>
    public static void KnowsAtOnce(RabbitMqOptions options) => (options.UnroutableGrace, options.RouteGroupsByMembers) = (TimeSpan.Zero, true);

    public static async Task<MemberNode> StartAsync(RabbitMqOptions options, int node)
    {
        var clients = new BroadcastTransport(node: node);
        var receiver = new RabbitMqReceiver(options, node, new BatchReceiver(clients));
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        Assert.Null(receiver.Fault);
        return new MemberNode(receiver, clients);
    }

    public Member Connect() => new(Clients);

    /// <summary>Waits until the queue gets only the output of its groups.</summary>
    public Task WhenBoundAsync() => Until.TrueAsync(() => !Receiver.Groups!.TakesAll);

    public async ValueTask DisposeAsync()
    {
        await Receiver.DisposeAsync();
        await Clients.DisposeAsync();
    }
}

/// <summary>A client of a <see cref="MemberNode"/>, which keeps the lines that it gets.</summary>
internal sealed class Member
{
    private readonly Lock _lock = new();
    private readonly StringBuilder _text = new();

    public Member(BroadcastTransport clients) => Connection = clients.Attach((bytes, _) =>
    {
        lock (_lock)
            _text.Append(Encoding.UTF8.GetString(bytes.Span));
        return ValueTask.CompletedTask;
    });

    public AttachedConnection Connection { get; }

    public OutputHandle Handle => Connection.Handle;

    public IReadOnlyList<string> Lines
    {
        get
        {
            lock (_lock)
                return _text.ToString().Split('\n', StringSplitOptions.RemoveEmptyEntries);
        }
    }

    /// <summary>Waits for so many lines, and checks that they are these.</summary>
    public async Task AssertLinesAsync(params IReadOnlyList<string> expected)
    {
        await Until.TrueAsync(() => Lines.Count >= expected.Count);
        Assert.Equal(expected, Lines);
    }
}

/// <summary>A game that writes, and the gateways that receive.</summary>
internal sealed class MemberScene(RabbitMqTransport transport, OutputBuffer output, MemberNode[] nodes) : IAsyncDisposable
{
    private int _lines;

    public OutputBuffer Output => output;

    public MemberNode[] Nodes => nodes;

    public static async Task<MemberScene> StartAsync(RabbitMqOptions options, int nodes, bool bindsAtOnce = true, Action<RabbitMqOptions>? gateways = null)
    {
        var transport = new RabbitMqTransport(options);
        gateways?.Invoke(options);
        var started = await Task.WhenAll(Enumerable.Range(0, nodes).Select(node => MemberNode.StartAsync(options, node)));
        if (bindsAtOnce)
            await Task.WhenAll(started.Select(static node => node.WhenBoundAsync()));
        var settings = new OutputBufferOptions { Node = OutputHandle.MaxNode, RetryDelay = TimeSpan.FromMilliseconds(20), MaxRetryDelay = TimeSpan.FromMilliseconds(200) };
        return new MemberScene(transport, new OutputBuffer(transport, settings), started);
    }

    public void Write(OutputHandle handle, string line) => output.Write(handle, Some.Bytes(line + "\n"));

    /// <summary>Writes to a group, and to a client of a node that has no members of it, until the node gets the latter alone.</summary>
    public Task WaitForSilenceAsync(MemberNode node, OutputHandle group, Member client) => Until.TrueAsync(async () =>
    {
        var frames = node.Frames;
        Write(group, "to the members");
        await CatchUpAsync(client);
        return node.Frames == frames + 1;
    });

    /// <summary>Writes once, and tells whether a client has got something; false when no queue is bound.</summary>
    public async Task<bool> TryReachAsync(OutputHandle handle, Member client)
    {
        var before = client.Lines.Count;
        Write(handle, "until it is bound");
        try
        {
            await output.FlushAsync().WithinDeadline();
        }
        catch (OutputDeliveryException)
        {
            return false;
        }

        return client.Lines.Count > before;
    }

    /// <summary>Waits until a client has all that was written before.</summary>
    public async Task CatchUpAsync(Member client)
    {
        var line = $"to the client, number {++_lines}";
        Write(client.Handle, line);
        await output.FlushAsync().WithinDeadline();
        // What was written to a group earlier may still be on its way, and would be taken for this line if only their number counted.
        await Until.TrueAsync(() => client.Lines.Contains(line));
    }

    public async ValueTask DisposeAsync()
    {
        await output.DisposeAsync();
        await transport.DisposeAsync();
        foreach (var node in nodes)
            await node.DisposeAsync();
    }
}

/// <summary>A gateway as an application hosts it: its own buffer writes to its clients, and to the game.</summary>
internal sealed class GatewayHost(IHost host) : IAsyncDisposable
{
    public IOutputBuffer Output { get; } = host.Services.GetRequiredService<IOutputBuffer>();

    public static async Task<GatewayHost> StartAsync(RabbitMqOptions options, int node, int game)
    {
        var builder = Host.CreateEmptyApplicationBuilder(new HostApplicationBuilderSettings());
        builder.Services.AddLogging().AddBatchKit(output => output.Node = node)
            .UseBroadcast()
            .UseRabbitMq(own => (own.Hosts, own.Prefix, own.UnroutableGrace, own.RouteGroupsByMembers, own.DestinationNode) = (options.Hosts, options.Prefix, options.UnroutableGrace, true, game))
            .ReceiveFromRabbitMq(static services => services.GetRequiredService<BroadcastTransport>());
        var host = builder.Build();
        await host.StartAsync().WithinDeadline();
        return new GatewayHost(host);
    }

    public Member Connect() => new(host.Services.GetRequiredService<BroadcastTransport>());

    public Task WhenBoundAsync() => Until.TrueAsync(() => !host.Services.GetRequiredKeyedService<RabbitMqReceiver>(string.Empty).Groups!.TakesAll);

    public async ValueTask DisposeAsync()
    {
        await host.StopAsync().WithinDeadline();
        await ((IAsyncDisposable)host).DisposeAsync();
    }
}

/// <summary>A game that answers each message to the group that the message names.</summary>
internal sealed class AnsweringGame(RabbitMqTransport transport, OutputBuffer output, RabbitMqReceiver receiver) : IAsyncDisposable
{
    public static async Task<AnsweringGame> StartAsync(RabbitMqOptions options, int node)
    {
        var transport = new RabbitMqTransport(options);
        var output = new OutputBuffer(transport, new OutputBufferOptions { Node = node });
        var receiver = new RabbitMqReceiver(options, node, new BatchReceiver(new Answers(output)));
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        return new AnsweringGame(transport, output, receiver);
    }

    public async ValueTask DisposeAsync()
    {
        await receiver.DisposeAsync();
        await output.DisposeAsync();
        await transport.DisposeAsync();
    }

    private sealed class Answers(OutputBuffer output) : IBatchTransport
    {
        public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
        {
            foreach (var batch in batches.Span)
            {
                foreach (var message in batch)
                {
                    var group = Encoding.UTF8.GetString(message.Payload.Span);
                    output.Write(OutputHandle.Named(group), Some.Bytes($"answer to {group}\n"));
                }
            }

            return ValueTask.CompletedTask;
        }
    }
}
