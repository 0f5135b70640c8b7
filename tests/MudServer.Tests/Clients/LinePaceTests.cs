using System.Collections.Concurrent;
using System.Text;
using BatchKit.Broadcast;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using MudServer.Clients;
using MudServer.Hosting;

namespace MudServer.Tests.Clients;

/// <summary>A client's lines come at the rate at which it may send them, though many are in one WebSocket message.</summary>
public sealed class LinePaceTests : IAsyncDisposable
{
    private const int Lines = 60;

    private readonly ManualTimeProvider _clock = new();
    private readonly ConcurrentQueue<string> _sent = new();
    private readonly BroadcastTransport _clients;
    private readonly OutputBuffer _input;
    private readonly ConnectedClients _connected = new();
    private readonly PlayerConnection _connection;

    public LinePaceTests()
    {
        _clients = new BroadcastTransport(timeProvider: new ManualTimeProvider());
        _input = new OutputBuffer(new NotingHop(_sent));
        var services = new ServiceCollection().AddKeyedSingleton<IOutputBuffer>(MudBuffers.Input, _input).BuildServiceProvider();
        var attached = _clients.Attach(static (_, _) => default);
        _connection = new PlayerConnection(
            attached.Connection, new ShardInputs(services, new MudOptions()), new ArrivalWatch(_input, _clients, _clock), _connected, _clock);
    }

    public async ValueTask DisposeAsync()
    {
        await _input.DisposeAsync();
        await _clients.DisposeAsync();
    }

    [Fact]
    public async Task The_lines_of_a_message_above_the_burst_wait_for_their_turn_at_a_gateway_too()
    {
        var receiving = ReceiveAsync(CancellationToken.None);
        await Task.WhenAny(receiving, _clock.WaitForTimersAsync()).WithinDeadline();
        await _input.FlushAsync().WithinDeadline();
        var atOnce = _sent.Count;
        var began = _clock.GetTimestamp();

        await receiving.WhileAdvancing(() => _clock.Advance(TimeSpan.FromSeconds(0.01)));
        await _input.FlushAsync().WithinDeadline();

        Assert.Equal(LinePace.LineBurst, atOnce);
        Assert.Equal(Enumerable.Range(0, Lines).Select(static line => $"{line}"), _sent);
        Assert.True(_clock.GetElapsedTime(began) >= TimeSpan.FromSeconds(1));
    }

    [Fact]
    public async Task Lines_that_wait_for_their_turn_hold_up_no_gateway_that_ends()
    {
        using var gone = new CancellationTokenSource();
        var receiving = ReceiveAsync(gone.Token);
        await _clock.WaitForTimersAsync();

        await _connection.LeaveAsync().WithinDeadline();
        _clock.Advance(TimeSpan.FromSeconds(0.05));
        await Until.TrueAsync(() => _connected.LateLines == 1);

        await gone.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => receiving.WithinDeadline());
        await _connection.LeaveAsync().WithinDeadline();
    }

    private Task ReceiveAsync(CancellationToken cancellationToken)
    {
        var text = string.Join('\n', Enumerable.Range(0, Lines));
        return _connection.ReceiveAsync(new[] { new ReceivedRecord(Encoding.UTF8.GetBytes(text)) }, cancellationToken).AsTask();
    }

    private sealed class NotingHop(ConcurrentQueue<string> sent) : IBatchTransport
    {
        public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
        {
            foreach (var batch in batches.Span)
            {
                foreach (var message in batch)
                    sent.Enqueue(Encoding.UTF8.GetString(message.Payload.Span));
            }

            return default;
        }
    }
}
