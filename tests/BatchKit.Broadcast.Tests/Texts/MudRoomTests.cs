using BatchKit.Testing;
using MudGame;

namespace BatchKit.Broadcast.Tests.Texts;

/// <summary>The room of the template for MUDs.</summary>
public sealed class MudRoomTests
{
    [Fact]
    public async Task A_name_whose_entry_failed_is_free_again()
    {
        await using var output = new OutputBuffer(new CollectingTransport());
        var room = new Room(output, new MudSettings());

        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => room.TryEnterAsync("Ana", Some.Connection(), new CancellationToken(canceled: true)).AsTask());

        Assert.True(await room.TryEnterAsync("Ana", Some.Connection(), CancellationToken.None));
        Assert.False(await room.TryEnterAsync("Ana", Some.Connection(), CancellationToken.None));
    }
}
