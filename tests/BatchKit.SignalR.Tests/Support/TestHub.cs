using Microsoft.AspNetCore.SignalR;

namespace BatchKit.SignalR.Tests.Support;

/// <summary>A hub with a method for each thing that a test needs a client to ask for.</summary>
public sealed class TestHub(IOutputBuffer output) : Hub
{
    public const string Receive = "Receive";

    /// <summary>Sends a client its number, then returns.</summary>
    public async Task<int> SendThenReturn(int number)
    {
        await Clients.Caller.SendAsync(Receive, $"{number}");
        return number;
    }

    /// <summary>Sends all clients a loop of messages in an ambient scope.</summary>
    public async Task Loop(int messages)
    {
        await using (output.BeginBufferingScope())
        {
            for (var number = 1; number <= messages; number++)
                await Clients.All.SendAsync(Receive, $"{number}");
        }
    }

    public async IAsyncEnumerable<int> Count(int to)
    {
        for (var number = 1; number <= to; number++)
        {
            await Task.Yield();
            yield return number;
        }
    }

    public async Task<int> Sum(IAsyncEnumerable<int> numbers)
    {
        var sum = 0;
        await foreach (var number in numbers)
            sum += number;
        return sum;
    }
}

/// <summary>Takes the user's identifier from the address, so that tests need no authentication.</summary>
public sealed class UserInAddress : IUserIdProvider
{
    public string? GetUserId(HubConnectionContext connection) => connection.GetHttpContext()?.Request.Query["user"].FirstOrDefault();
}
