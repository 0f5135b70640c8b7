using System.Runtime.CompilerServices;

namespace BatchKit.Broadcast.Connections;

/// <summary>What one worker delivered, by outcome, until it is added to the counters at once.</summary>
internal struct DeliveryTally
{
    public const int Outcomes = (int)DeliveryOutcome.Failed + 1;

    private OutcomeAmounts _settled;

    public Amount Attempted { get; private set; }

    public readonly Amount this[DeliveryOutcome outcome] => _settled[(int)outcome];

    public void Attempt(Amount amount) => Attempted += amount;

    public void Settle(DeliveryOutcome outcome, Amount amount) => _settled[(int)outcome] += amount;

    [InlineArray(Outcomes)]
    private struct OutcomeAmounts
    {
        private Amount _first;
    }
}
