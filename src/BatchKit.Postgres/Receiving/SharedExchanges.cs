namespace BatchKit.Postgres.Receiving;

/// <summary>
/// Shares exchanges among a receiver's workers. A worker's exchange begins at once while none is under way. Workers that finish during an exchange share the next one, which the first of them makes for all. It
/// begins during the other one when a third of the workers share it: then the server works while this process reads. Workers that were idle share exchanges of their own, which settle nothing and so don't wait for
/// the disk: a message that comes is not held up by the end of others. Ordered queues share none. Thread-safe.
/// </summary>
/// <remarks>An exchange that is slow, because its connection hangs or its messages are large, holds up only its own workers: who has waited too long for its end begins another one.</remarks>
internal sealed class SharedExchanges(ReceiverParts parts)
{
    /// <summary>How many exchanges are under way at most, except those that are slow or were refused.</summary>
    public const int Lanes = 2;

    // An exchange takes some milliseconds.
    private static readonly TimeSpan Patience = TimeSpan.FromMilliseconds(100);

    private readonly int _most = parts.Store.MostClaims;
    private readonly int _enough = (Math.Min(parts.Store.MostClaims, parts.Options.Concurrency) + 2) / 3;
    private readonly long _mostBytes = parts.Options.MaxBatchBytes;

    // Guards the two fields below.
    private readonly Lock _lock = new();
    private readonly List<Member> _waiting = [];

    // Make the exchanges that are under way, the oldest first, except those that were overtaken.
    private readonly List<Member> _leaders = [];

    private enum Turn
    {
        /// <summary>The worker makes the next exchange.</summary>
        Leads,

        /// <summary>The exchange was made for the worker.</summary>
        Ended,

        /// <summary>The server refused the shared exchange, so that each worker makes its own.</summary>
        Alone,
    }

    /// <summary>Settles a worker's claim, and takes another one.</summary>
    /// <param name="exchanger">The worker's own.</param>
    /// <param name="settled">The claim to settle; null for none.</param>
    /// <param name="isRetriesTurn">Whether the worker takes a retry if there is one.</param>
    /// <returns>The new claim; null for none.</returns>
    public async ValueTask<HeldClaim?> ExchangeAsync(ClaimExchanger exchanger, HeldClaim? settled, bool isRetriesTurn)
    {
        var member = new Member(settled, isRetriesTurn);
        var turn = _most == 1 ? Turn.Alone : await EnterAsync(member).ConfigureAwait(false);
        if (turn == Turn.Leads)
            turn = await LeadAsync(exchanger, member).ConfigureAwait(false);
        if (turn == Turn.Alone)
            Give([member], (await exchanger.ExchangeAsync(Settled([member]), Request([member]), isShared: false, isRepeat: _most > 1).ConfigureAwait(false))!);
        return member.Taken;
    }

    private async ValueTask<Turn> EnterAsync(Member member)
    {
        lock (_lock)
        {
            if (MayLead(member, CountWaiting(member) + 1))
            {
                _leaders.Add(member);
                return Turn.Leads;
            }

            _waiting.Add(member);
        }

        await ((Task)member.Turn).WaitAsync(Patience, parts.TimeProvider).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        if (!member.Turn.IsCompleted)
            Overtake(member);
        return await member.Turn.ConfigureAwait(false);
    }

    private void Overtake(Member member)
    {
        lock (_lock)
        {
            // It is in an exchange already.
            if (!_waiting.Remove(member))
                return;
            _leaders.RemoveAt(0);
            _leaders.Add(member);
        }

        member.Lead();
    }

    // Called under the lock.
    private bool MayLead(Member member, int members) => _leaders.Count < Lanes && (members >= _enough || !_leaders.Exists(member.SharesWith));

    // Called under the lock.
    private int CountWaiting(Member member) => _waiting.Count(member.SharesWith);

    private async ValueTask<Turn> LeadAsync(ClaimExchanger exchanger, Member leader)
    {
        var members = Gather(leader);
        var settled = Settled(members);
        var turn = Turn.Alone;
        try
        {
            if (await exchanger.ExchangeAsync(settled, Request(members), isShared: members.Count > 1).ConfigureAwait(false) is { } taken)
            {
                Give(members, taken);
                turn = Turn.Ended;
            }
        }
        finally
        {
            Leave(leader);
            foreach (var member in members)
                member.End(turn, settled);
        }

        return turn;
    }

    // Those that wait, in their order, as far as the server can settle their claims in one transaction without taking long.
    private List<Member> Gather(Member leader)
    {
        var members = new List<Member> { leader };
        var bytes = leader.Bytes;
        lock (_lock)
        {
            foreach (var member in _waiting.Where(leader.SharesWith))
            {
                if (members.Count == _most || (bytes += member.Bytes) > _mostBytes)
                    break;
                members.Add(member);
            }

            _waiting.RemoveAll(members.Contains);
        }

        return members;
    }

    private void Leave(Member leader)
    {
        Member? next;
        lock (_lock)
        {
            if (!_leaders.Remove(leader) || (next = _waiting.Find(member => MayLead(member, CountWaiting(member)))) is null)
                return;
            _waiting.Remove(next);
            _leaders.Add(next);
        }

        next.Lead();
    }

    private static List<HeldClaim> Settled(List<Member> members) => [.. members.Select(static member => member.Settled).OfType<HeldClaim>()];

    private static ClaimRequest Request(List<Member> members) => new(members.Count, members.Count(static member => member.IsRetriesTurn));

    private static void Give(List<Member> members, IReadOnlyList<HeldClaim> taken)
    {
        for (var index = 0; index < taken.Count; index++)
            members[index].Taken = taken[index];
    }

    /// <summary>A worker in an exchange.</summary>
    private sealed class Member(HeldClaim? settled, bool isRetriesTurn)
    {
        private readonly TaskCompletionSource<Turn> _turn = new(TaskCreationOptions.RunContinuationsAsynchronously);

        public HeldClaim? Settled { get; private set; } = settled;

        public long Bytes { get; } = settled?.Claim.Bytes ?? 0;

        public bool IsRetriesTurn => isRetriesTurn;

        private bool Settles { get; } = settled is not null;

        public HeldClaim? Taken { get; set; }

        public Task<Turn> Turn => _turn.Task;

        public bool SharesWith(Member other) => Settles == other.Settles;

        public void Lead() => _turn.TrySetResult(SharedExchanges.Turn.Leads);

        /// <param name="turn">How the exchange ended.</param>
        /// <param name="left">The claims that are not settled.</param>
        public void End(Turn turn, List<HeldClaim> left)
        {
            if (Settled is { } settled && !left.Contains(settled))
                Settled = null;
            _turn.TrySetResult(turn);
        }
    }
}
