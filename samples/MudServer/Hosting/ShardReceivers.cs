using BatchKit.RabbitMQ;
using BatchKit.Transports;
using MudServer.Game;

namespace MudServer.Hosting;

/// <summary>
/// Receives the input of this game's shard, and stands by for the others. A shard is a node of its own, whose queue keeps its input. The broker leases a node's number to one process at a time, so a
/// game that ends loses its shard, and another takes it over with all that waits.
/// </summary>
internal sealed class ShardReceivers(
    BatchKitBuilder registration, IServiceProvider services, MudOptions options, Shards shards, GameInput input, Peers peers, TimeProvider timeProvider, ILogger<ShardReceivers> logger)
    : BackgroundService
{
    private static readonly TimeSpan Poll = TimeSpan.FromMilliseconds(50);

    // So that games that start together each get their own shard.
    private static readonly TimeSpan Grace = TimeSpan.FromSeconds(3);

    // The longest that lines are held back at the start, until the other games have told their players.
    private static readonly TimeSpan LongestHold = TimeSpan.FromSeconds(3);

    // Enough for the game that asked for its shard to take it.
    private static readonly TimeSpan PauseAfterRelease = TimeSpan.FromSeconds(10);

    private readonly ShardReceiver?[] _receivers = new ShardReceiver?[shards.Count + 1];

    public override async Task StartAsync(CancellationToken cancellationToken)
    {
        input.Hold(isHeld: true);
        await StartReceiverAsync(shards.Home, cancellationToken);
        await peers.AnnounceAsync();
        await base.StartAsync(cancellationToken);
    }

    /// <summary>Stops receiving a shard's input, and gives its number back. Another game takes it.</summary>
    public async Task ReleaseAsync(int shard)
    {
        if (Interlocked.Exchange(ref _receivers[shard], null) is not { } receiver)
            return;
        await receiver.DisposeAsync();
        shards.SetOwned(shard, isOwned: false);
        Log.ShardGivenBack(logger, shard, shards.Count);
    }

    public override async Task StopAsync(CancellationToken cancellationToken)
    {
        await base.StopAsync(cancellationToken);
        foreach (var receiver in _receivers)
            await (receiver?.DisposeAsync() ?? default);
    }

    protected override async Task ExecuteAsync(CancellationToken stoppingToken)
    {
        try
        {
            await Task.WhenAll(shards.All.Select(shard => WatchAsync(shard, stoppingToken)).Append(EndHoldAsync(stoppingToken)));
        }
        catch (OperationCanceledException) when (stoppingToken.IsCancellationRequested)
        {
            // The server stops.
        }
    }

    private async Task EndHoldAsync(CancellationToken cancellationToken)
    {
        await Task.Delay(LongestHold, timeProvider, cancellationToken);
        input.Hold(isHeld: false);
    }

    /// <summary>Notes whether this game owns a shard, and stands by again a while after it was given back.</summary>
    private async Task WatchAsync(int shard, CancellationToken cancellationToken)
    {
        if (shard != shards.Home)
        {
            await Task.Delay(Grace, timeProvider, cancellationToken);
            await StartReceiverAsync(shard, cancellationToken);
        }

        while (true)
        {
            await Task.Delay(Poll, timeProvider, cancellationToken);
            var receiver = Volatile.Read(ref _receivers[shard]);
            if (receiver is null)
            {
                await Task.Delay(PauseAfterRelease, timeProvider, cancellationToken);
                await StartReceiverAsync(shard, cancellationToken);
            }
            else if (receiver.IsReceiving != shards.Owns(shard) && ReferenceEquals(receiver, Volatile.Read(ref _receivers[shard])))
            {
                shards.SetOwned(shard, receiver.IsReceiving);
                Log.ShardChanged(logger, shard, shards.Count, receiver.IsReceiving ? "here" : $"not here: {receiver.Fault}");
            }
        }
    }

    private async Task StartReceiverAsync(int shard, CancellationToken cancellationToken)
    {
        var receiver = new ShardReceiver(registration, services, options, shards, shard, input, timeProvider);
        Volatile.Write(ref _receivers[shard], receiver);
        await receiver.StartAsync(cancellationToken);
    }
}

/// <summary>Receives one shard's input, or waits while another game does.</summary>
internal sealed class ShardReceiver : IBatchTransport, IAsyncDisposable
{
    private readonly int _shard;
    private readonly Shards _shards;
    private readonly GameInput _input;
    private readonly RabbitMqReceiver _receiver;

    public ShardReceiver(BatchKitBuilder registration, IServiceProvider services, MudOptions options, Shards shards, int shard, GameInput input, TimeProvider timeProvider)
    {
        (_shards, _shard, _input) = (shards, shard, input);
        var rabbit = new RabbitMqOptions { WaitsForNode = true, MaxReconnectDelay = TimeSpan.FromMilliseconds(500), StopTimeout = TimeSpan.FromSeconds(1) };
        MudBroker.Set(rabbit, options, destinationNode: null);
        _receiver = new RabbitMqReceiver(rabbit, options.NodeOf(shard), registration.CreateReceiver(services, _ => this), timeProvider);
    }

    public bool IsReceiving => Fault is null;

    public string? Fault => _receiver.Fault;

    public Task StartAsync(CancellationToken cancellationToken) => _receiver.StartAsync(cancellationToken);

    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        // The first input may come before anyone has looked.
        _shards.SetOwned(_shard, isOwned: true);
        return _input.AcceptAsync(batches, _shard, cancellationToken);
    }

    public ValueTask DisposeAsync() => _receiver.DisposeAsync();
}
