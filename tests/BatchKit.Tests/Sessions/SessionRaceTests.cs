using BatchKit.Sessions;

namespace BatchKit.Tests.Sessions;

/// <summary>Lines that arrive while something else happens to their session.</summary>
public sealed class SessionRaceTests
{
    private const int Rounds = 300;
    private const int SessionsPerRound = 50;

    [Fact]
    public async Task A_session_that_was_taken_up_when_its_time_was_over_does_not_end_afterwards()
    {
        await using var rig = new SessionRig();
        var later = rig.Clock.GetTimestamp() + (rig.Clock.TimestampFrequency * 180);
        for (var round = 0; round < Rounds; round++)
        {
            var connection = rig.Connections.Open();
            var session = rig.Open(connection, acknowledges: false);
            var (hasEndedHere, isOver) = (false, false);

            Parallel.Invoke(
                () =>
                {
                    while (!session.HasEnded && !Volatile.Read(ref isOver))
                        rig.Sessions.Age(later);
                },
                () =>
                {
                    for (var attempt = 0; attempt < 50 && !session.HasEnded; attempt++)
                    {
                        rig.Sessions.Suspend(connection);
                        hasEndedHere |= rig.Sessions.TryResume(session.Token, connection, lastReceived: 0, out _) && session.HasEnded;
                    }

                    Volatile.Write(ref isOver, true);
                });

            rig.Sessions.End(session);
            Assert.False(hasEndedHere, $"It ended while it had its connection, in round {round}.");
        }
    }

    [Fact]
    public async Task A_session_that_was_taken_elsewhere_does_not_end_when_its_old_connection_opens_another()
    {
        for (var round = 0; round < Rounds; round++)
        {
            await using var rig = new SessionRig();
            OutputHandle[] older = [.. Enumerable.Range(0, SessionsPerRound).Select(_ => rig.Connections.Open())];
            OutputHandle[] newer = [.. older.Select(_ => rig.Connections.Open())];
            Session[] sessions = [.. older.Select(connection => rig.Open(connection))];
            var resumed = new bool[sessions.Length];

            Parallel.Invoke(
                () => Array.ForEach(older, connection => rig.Say(connection, "session open")),
                () =>
                {
                    for (var index = 0; index < sessions.Length; index++)
                        resumed[index] = rig.Say(newer[index], $"session resume {sessions[index].Token} 0").Kind == SessionLineKind.Resumed;
                });

            Assert.Equal(resumed, sessions.Select(session => !session.HasEnded));
        }
    }

    [Fact]
    public async Task A_handle_of_an_earlier_run_is_no_handle_of_this_one()
    {
        await using SessionRig earlier = new(), later = new();

        var handles = Enumerable.Range(0, 1000).Select(_ => earlier.Open(earlier.Connections.Open()).Handle).ToHashSet();

        Assert.DoesNotContain(later.Open(later.Connections.Open()).Handle, handles);
    }
}
