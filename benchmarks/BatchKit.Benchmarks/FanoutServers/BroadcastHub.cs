using Microsoft.AspNetCore.SignalR;

namespace BatchKit.Benchmarks.FanoutServers;

/// <summary>Puts everybody into one group.</summary>
public sealed class BroadcastHub : Hub
{
    private static int _joined;

    /// <summary>How many are in it.</summary>
    public static int Joined => Volatile.Read(ref _joined);

    /// <inheritdoc/>
    public override async Task OnConnectedAsync()
    {
        await Groups.AddToGroupAsync(Context.ConnectionId, FanoutCrowd.Everybody);
        Interlocked.Increment(ref _joined);
    }

    /// <inheritdoc/>
    public override Task OnDisconnectedAsync(Exception? exception)
    {
        Interlocked.Decrement(ref _joined);
        return Task.CompletedTask;
    }
}
