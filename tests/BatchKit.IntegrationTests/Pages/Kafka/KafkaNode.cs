using BatchKit.Testing;
using Confluent.Kafka;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.Pages.Kafka;

/// <summary>A process with the page's example, and with a next hop that a test can hold up.</summary>
internal sealed class KafkaNode : IAsyncDisposable
{
    private readonly CollectingTransport _arrived = new();
    private readonly string _servers;
    private readonly IHost _host;

    private KafkaNode(int node, string servers)
    {
        Node = node;
        _servers = servers;
        NextHop = new ScriptedTransport(_arrived);
        var application = Host.CreateEmptyApplicationBuilder(settings: null);
        application.Services.AddLogging().AddSingleton(new MySockets(NextHop));
        KafkaExample.Add(application.Services, node, servers);
        _host = application.Build();
    }

    public int Node { get; }

    public ScriptedTransport NextHop { get; }

    public IReadOnlyList<string> Texts => _arrived.Texts;

    /// <summary>Starts it, and returns when the broker knows where it begins to read.</summary>
    public static async Task<KafkaNode> StartAsync(int node, string servers)
    {
        var started = new KafkaNode(node, servers);
        await started._host.StartAsync().WithinDeadline();
        await Until.TrueAsync(started.HasStart);
        return started;
    }

    public async Task WriteAsync(OutputHandle handle, string text)
    {
        var output = _host.Services.GetRequiredService<IOutputBuffer>();
        output.Write(handle, text);
        await output.FlushAsync().AsTask().WithinDeadline();
    }

    public Task WaitForMessagesAsync(int count) => _arrived.WaitForMessagesAsync(count).WithinDeadline();

    public async ValueTask DisposeAsync()
    {
        await _host.StopAsync().WithinDeadline();
        await ((IAsyncDisposable)_host).DisposeAsync();
    }

    private bool HasStart()
    {
        using var consumer = new ConsumerBuilder<Ignore, Ignore>(new ConsumerConfig { BootstrapServers = _servers, GroupId = $"node-{Node}" }).Build();
        return consumer.Committed([new TopicPartition("frames", Node)], Deadline.Time).Single().Offset != Offset.Unset;
    }
}
