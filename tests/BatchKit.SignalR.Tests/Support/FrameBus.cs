using System.Collections.Concurrent;
using System.Threading.Channels;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.SignalR.Tests.Support;

/// <summary>A broker in this process: each node gets each frame, in one order, as over a fan-out exchange.</summary>
public sealed class FrameBus
{
    private readonly ConcurrentDictionary<Channel<byte[]>, bool> _queues = new();
    private int _frames;

    /// <summary>How many frames were published.</summary>
    public int Frames => Volatile.Read(ref _frames);

    public void Join(BatchKitBuilder builder) => Join(builder, Task.CompletedTask);

    /// <summary>Joins a node that gets all frames, and whose own wait until something has happened.</summary>
    public void Join(BatchKitBuilder builder, Task happened)
    {
        builder.UseFrameTransport(_ => (frame, cancellationToken) => PublishAsync(frame, happened, cancellationToken)).AddFrameReceiver(static services => services.GetRequiredService<SignalRTransport>());
        builder.Services.AddHostedService(services => new Reader(this, services.GetRequiredService<FrameReceiver>()));
    }

    private async ValueTask PublishAsync(OutgoingFrame frame, Task happened, CancellationToken cancellationToken)
    {
        await happened.WaitAsync(cancellationToken);
        Interlocked.Increment(ref _frames);
        foreach (var queue in _queues.Keys)
            queue.Writer.TryWrite(frame.Bytes.ToArray());
    }

    private sealed class Reader(FrameBus bus, FrameReceiver receiver) : BackgroundService
    {
        private readonly Channel<byte[]> _queue = Channel.CreateUnbounded<byte[]>();

        public override Task StartAsync(CancellationToken cancellationToken)
        {
            bus._queues[_queue] = true;
            return base.StartAsync(cancellationToken);
        }

        protected override async Task ExecuteAsync(CancellationToken stoppingToken)
        {
            await foreach (var frame in _queue.Reader.ReadAllAsync(stoppingToken))
                await receiver.ReceiveAsync(frame, stoppingToken);
        }
    }
}
